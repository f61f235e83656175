"""What single and batched environments have in common, so that both play exactly the same episodes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import gymnasium
import msgspec
import numpy as np

from spade_gym.errors import ProgramFault
from spade_gym.programs.commands import discover, expand
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Limits
from spade_gym.types import WIN_THRESHOLD

#: What a player sees in place of an observation when the program has failed; the info's ``fault`` says why.
FAULT_NOTICE = "The environment failed, and this episode was cut off."
_SEEDS = 1 << 31
_MAX_COMMANDS = 4096
_MOST = 10**9


def as_seed(seed: object) -> int | None:
    """Check a seed: ``None`` or a whole number from 0 on, of Python or NumPy.

    Raises:
        TypeError: It is a bool or no whole number.
        ValueError: It is negative.
    """
    if seed is None:
        return None
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, SupportsIndex):
        raise TypeError(f"seed must be a whole number or None, got {seed!r} of type {type(seed).__name__}")
    number = operator.index(seed)
    if not 0 <= number < 1 << 63:
        raise gymnasium.error.Error(f"seed must be from 0 to 2**63 - 1, got {number}")
    return number


def next_instance(rng: np.random.Generator) -> int:
    """Draw the seed of the next instance."""
    return int(rng.integers(_SEEDS))


def as_count(name: str, value: object) -> int:
    """Check a number of things: a whole number from 1 on, of Python or NumPy.

    Raises:
        TypeError: It is a bool or no whole number.
        ValueError: It is below 1 or beyond 10**9.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be a whole number from 1 on, got {value!r} of type {type(value).__name__}")
    number = operator.index(value)
    if not 1 <= number <= _MOST:
        raise ValueError(f"{name} must be from 1 to {_MOST}, got {number}")
    return number


def as_hint(value: object) -> bool:
    """Check the choice of an arm.

    Raises:
        TypeError: It is no bool (the hint's text stands in the program's manifest).
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"hint must be True or False (the text is in the program's manifest), got {value!r}")
    return bool(value)


def as_limits(limits: Limits | Mapping[str, Any] | None) -> Limits:
    """Read limits from a mapping (so that an ``EnvSpec`` with them can be written as JSON).

    Raises:
        TypeError: They are neither ``Limits`` nor a mapping, or a limit is unknown.
    """
    if limits is None or isinstance(limits, Limits):
        return limits or Limits()
    if not isinstance(limits, Mapping):
        raise TypeError(f"limits must be Limits or a mapping of some of them, got {limits!r}")
    known = Limits.__slots__
    for key in limits:
        if key not in known:
            raise TypeError(f"unknown limit {key!r}; the limits are {', '.join(known)}")
    return Limits(**limits)


def check_options(options: Mapping[str, Any] | None, known: Sequence[str]) -> dict[str, Any]:
    """Check the options of a reset.

    Raises:
        TypeError: They are no mapping, or one has a value of another type.
        ValueError: An option is unknown.
    """
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping or None, got {options!r}")
    chosen = dict(options or {})
    for key in chosen:
        if key not in known:
            raise ValueError(f"unknown reset option {key!r}; the options are {', '.join(known)}")
    history = chosen.get("action_history", ())
    if not isinstance(history, Sequence) or isinstance(history, str):
        raise TypeError(f"action_history must be a sequence of texts, got {history!r}")
    if "hint" in chosen:
        chosen["hint"] = as_hint(chosen["hint"])
    return chosen


def with_hint(program: Program, observation: str) -> str:
    """Append the program's hint to a first observation.

    Raises:
        ValueError: The program has no hint.
    """
    if not program.manifest.hint:
        raise ValueError(f"program {program.name} ({program.digest[:12]}) has no hint; its manifest's 'hint' is empty")
    return f"{observation}\n\nHINT: {program.manifest.hint}"


def commands_of(program: Program, first_observation: str | None) -> tuple[str, ...]:
    """Return the commands that a manifest declares, expanded, else those that a first observation announces."""
    if program.manifest.commands:
        return expand(program.manifest.commands, _MAX_COMMANDS)
    return discover(first_observation).commands if first_observation is not None else ()


def describe_fault(fault: ProgramFault) -> str:
    """Return the info value ``fault``: the reason, then the message."""
    return f"{fault.reason}: {fault}"


def is_win(terminated: bool, total: float) -> bool:
    """Whether an episode that ended like this was won (method, section 6)."""
    return terminated and min(1.0, total) >= WIN_THRESHOLD


def reset_info(program: Program, seed: int, tools: str) -> dict[str, Any]:
    """Return the info of a reset; its values keep one type per key for ever."""
    return {
        "digest": program.digest,
        "instance_seed": seed,
        "is_success": False,
        "fault": "",
        **({"tools": tools} if program.setting == "tool_use" else {}),
    }


def add_program_info(info: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Add what the program itself put into info: its ``commands`` where they are texts, and everything as JSON.

    JSON text, because a program may give values of any type: Gymnasium's vector environments make arrays of infos by
    the type of the first value, and raise or change values where the next one differs.
    """
    commands = given.get("commands")
    if isinstance(commands, list) and all(isinstance(command, str) for command in commands):
        info["commands"] = commands
    info["program_info"] = msgspec.json.encode(given).decode()


def last_reward_only(program: Program, reward: float, terminated: bool) -> float:
    """Apply the manifest's reward rule to one step: ``last`` pays only the terminating step."""
    return reward if program.manifest.reward == "sum" or terminated else 0.0
