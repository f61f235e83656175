"""The adapters: how programs that depart from the contract are run all the same, each departure noted by name."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

from spade_gym.sandbox.conversion import BadResult, Note, safe_repr, to_flag, to_observation, to_reward
from spade_gym.sandbox.tool_use import ToolUseBaseEnv

#: Every name that is noted here, in ``conversion.py`` and in ``harness.py``.
ADAPTERS = frozenset({
    "observation_only_reset", "reset_without_seed", "four_tuple_step", "three_tuple_step", "text_game_step",
    "required_arguments", "dropped_arguments", "discrete_action", "dict_observation", "array_observation",
    "non_text_observation", "lone_surrogates", "numpy_scalar", "number_subclass", "integer_flag", "list_solution",
    "long_info",
})  # fmt: skip

#: Values for constructor arguments that a program demands and nobody gave.
_BY_NAME = {"max_turns": 20, "max_steps": 20, "seed": 0, "difficulty": "medium", "level": 1, "size": 5, "n": 5}
_BY_TYPE = {int: 5, float: 1.0, str: "", bool: False, list: [], dict: {}}
_TURN_LIMITS = ("max_turns", "max_steps", "_max_turns", "_max_steps", "max_episode_steps")


def construct(kind: type, arguments: dict[str, Any], note: Note) -> Any:
    """Make an instance, dropping arguments that the constructor does not take and filling ones that it demands.

    Raises:
        BadResult: The class lacks ``reset`` or ``step``, or is abstract.
    """
    for name in ("reset", "step"):
        if not callable(getattr(kind, name, None)):
            raise BadResult(f"class {kind.__name__} has no method {name}")
    try:
        parameters = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    given = {key: value for key, value in arguments.items() if takes_any or key in names}
    if len(given) < len(arguments):
        note("dropped_arguments")
    positional = []
    for parameter in parameters:
        if parameter.default is not parameter.empty or parameter.name in given:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(_guess(parameter))
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            given[parameter.name] = _guess(parameter)
        else:
            continue
        note("required_arguments")
    return kind(*positional, **given)


def _guess(parameter: inspect.Parameter) -> Any:
    if parameter.name in _BY_NAME:
        return _BY_NAME[parameter.name]
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict}.get(annotation)
    value = _BY_TYPE.get(annotation) if isinstance(annotation, type) else None
    return value.copy() if isinstance(value, list | dict) else value


def reset(environment: Any, seed: int, note: Note) -> tuple[Any, Any]:
    """Call ``reset`` in whatever form the program declares; return observation and info.

    Raises:
        BadResult: The result is neither an observation nor an (observation, info) pair.
    """
    if _takes_seed(environment.reset):
        result = environment.reset(seed=seed)
    else:
        note("reset_without_seed")
        result = environment.reset()
    if type(result) is tuple or isinstance(result, tuple):
        if len(result) == 2 and (isinstance(result[1], dict) or result[1] is None):
            return result
        if len(result) == 1:
            note("observation_only_reset")
            return result[0], None
        raise BadResult(f"reset must return (observation, info), got a tuple of {len(result)}: {safe_repr(result)}")
    note("observation_only_reset")
    return result, None


def _takes_seed(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)


def step_function(environment: Any, note: Note) -> Callable[[str], Any]:
    """Return what plays one text action: the program's ``step``, or a translation for numbered actions."""
    space: Any = getattr(environment, "action_space", None) if base_of(environment) == "gymnasium" else None
    if type(space).__name__ != "Discrete":
        return environment.step  # type: ignore[no-any-return]
    note("discrete_action")
    first, count = int(space.start), int(space.n)

    def play(text: str) -> Any:
        number = re.search(r"-?\d{1,9}", text)
        if number is None or not first <= int(number.group()) < first + count:
            message = f"Actions are the whole numbers from {first} to {first + count - 1}."
            return message, 0.0, False, False, {}
        return environment.step(int(number.group()))

    return play


def unpack_step(result: Any, note: Note) -> tuple[Any, Any, Any, Any, Any]:
    """Return (observation, reward, terminated, truncated, info) from a step result of any known form.

    Raises:
        BadResult: It is of no known form.
    """
    if not isinstance(result, tuple | list):
        raise BadResult(
            "step must return (observation, reward, terminated, truncated, info), "
            f"got {type(result).__name__}: {safe_repr(result)}"
        )
    if len(result) == 5:
        if isinstance(result[3], bool) and isinstance(result[4], bool):  # (observation, score, reward, over, won)
            note("text_game_step")
            return result[0], result[2], result[3], False, {"won": result[4]}
        return tuple(result)
    if len(result) == 4:
        note("four_tuple_step")
        observation, reward, done, info = result
        cut = bool(isinstance(info, dict) and info.get("TimeLimit.truncated", False))
        return observation, reward, done and not cut, cut, info
    if len(result) == 3:
        note("three_tuple_step")
        return (*result, False, None)
    raise BadResult(
        "step must return (observation, reward, terminated, truncated, info), "
        f"got a tuple of {len(result)}: {safe_repr(result)}"
    )


def convert(
    observation: Any, reward: Any, terminated: Any, truncated: Any, note: Note
) -> tuple[str, float, bool, bool]:
    """Convert the four values of a result to exact built-in types.

    Raises:
        BadResult: One of them stands for nothing of its kind.
    """
    return (
        to_observation(observation, note),
        to_reward(reward, note),
        to_flag(terminated, "terminated", note),
        to_flag(truncated, "truncated", note),
    )


def turn_limit(environment: Any) -> int | None:
    """The program's own turn limit, where it keeps one in the usual attribute."""
    for name in _TURN_LIMITS:
        value = getattr(environment, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return int(value)
    return None


def base_of(environment: Any) -> str:
    """``tool_use``, ``gymnasium``, ``gem`` or ``plain``: what the program's class derives from."""
    if isinstance(environment, ToolUseBaseEnv):
        return "tool_use"
    for module, name in (("gymnasium", "gymnasium"), ("gem.core", "gem")):
        kind = getattr(sys.modules.get(module), "Env", None)
        if isinstance(kind, type) and isinstance(environment, kind):
            return name
    return "plain"


def tool_methods(environment: Any) -> dict[str, list[dict[str, Any]]]:
    """Parameters of every ``tool_…`` method: name, whether it is required, and its kind."""
    methods: dict[str, list[dict[str, Any]]] = {}
    for attribute in dir(type(environment)):
        method = getattr(environment, attribute, None)
        if attribute.startswith("tool_") and attribute != "tool_schemas" and callable(method):
            methods[attribute[len("tool_") :]] = [
                {"name": p.name, "required": p.default is p.empty and not _is_variadic(p), "kind": p.kind.name.lower()}
                for p in inspect.signature(method).parameters.values()
            ]
    return methods


def _is_variadic(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
