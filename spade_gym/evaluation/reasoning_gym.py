"""Data sets of Reasoning Gym as a suite, with the scorers that come with them.

Questions are made, and answers scored, in workers of the sandbox: there the package's use of the global generators and
of the order of sets is fixed, so the same seed gives the same questions everywhere.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from spade_gym.errors import ProgramFault
from spade_gym.evaluation.question import Question
from spade_gym.evaluation.question_suite import QuestionSuite
from spade_gym.evaluation.suite import SuiteError, Task
from spade_gym.evaluation.unseen_seeds import unseen_seeds
from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.session import Session

#: Questions of each data set, where nothing is said.
QUESTIONS = 16
#: ``composite`` is made of others by a configuration, and has none of its own.
_NOT_BY_ITSELF = ("composite",)
_LIMITS = Limits(memory_bytes=2 << 30, load_seconds=120.0)
_LIST = """
import reasoning_gym.factory


class NamesEnv:
    def reset(self, seed=None):
        return "\\n".join(sorted(reasoning_gym.factory.DATASETS)), {}

    def step(self, action):
        return "", 0.0, True, False, {}
"""


def reasoning_gym_suite(
    names: Sequence[str] = (),
    *,
    tasks: int = QUESTIONS,
    seed: int = 0,
    configs: Mapping[str, Mapping[str, Any]] | None = None,
    isolation: str = "",
) -> QuestionSuite:
    """Return questions of some data sets.

    Args:
        names: Of the data sets; empty for all.
        tasks: Questions of each.
        seed: Chooses the data sets' own seeds, in the range that is kept for evaluation.
        configs: Settings of data sets, by name.
        isolation: Level of the workers; "" for the default.

    Raises:
        SuiteError: The package is missing, a name or setting is unknown, or a data set cannot be made.
    """
    if importlib.util.find_spec("reasoning_gym") is None:
        raise SuiteError("the suite reasoning-gym needs its package: pip install 'spade-gym[reasoning-gym]'")
    level = Isolation.parse(isolation or None)
    chosen, configs = _chosen(names, level), configs or {}
    if extra := next((name for name in configs if name not in chosen), None):
        raise SuiteError(f"settings are given for the data set {extra!r}, which is not part of the suite")
    first = unseen_seeds(1, seed=seed)[0]
    questions = []
    for name in chosen:
        config = {"size": tasks, **configs.get(name, {}), "seed": first}
        questions += _questions(_dataset(name, config), name, tasks, level)
    return QuestionSuite(
        questions,
        name="reasoning-gym",
        described={
            "kind": "reasoning-gym", "version": importlib.metadata.version("reasoning-gym"), "datasets": list(chosen),
            "dataset_seed": first, "configs": {name: dict(config) for name, config in configs.items()},
        },
    )  # fmt: skip


def _chosen(names: Sequence[str], level: Isolation | None) -> tuple[str, ...]:
    """The names that are meant; unknown ones are refused."""
    program = Program(_LIST, Manifest(name="Names", setting="single_turn", class_name="NamesEnv"))
    with Session(program, isolation=level, limits=_LIMITS) as session:
        known = session.reset(session.open(), 0).observation.split("\n")
    known = [name for name in known if name not in _NOT_BY_ITSELF]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            ask = f"; did you mean {near[0]!r}?" if near else ""
            raise SuiteError(f"reasoning-gym has no data set {name!r}{ask} It has {', '.join(known)}")
    if len(set(names)) < len(names):
        raise SuiteError("a data set is named twice; leave one of them out")
    return tuple(names) or tuple(known)


def _dataset(name: str, config: Mapping[str, Any]) -> Program:
    source = resources.files("spade_gym.evaluation").joinpath("graders", "reasoning_gym_answer.py").read_text("utf-8")
    kwargs = {"dataset": name, "config": dict(config)}
    return Program(
        source, Manifest(name="ReasoningGym", setting="single_turn", class_name="ReasoningGymEnv", kwargs=kwargs)
    )


def _questions(program: Program, name: str, tasks: int, level: Isolation | None) -> list[Question]:
    found = []
    with Session(program, isolation=level, limits=_LIMITS) as session:
        slot = session.open()
        for number in range(tasks):
            try:
                text = session.reset(slot, number).observation
            except ProgramFault as fault:
                raise SuiteError(
                    f"reasoning-gym cannot make question {number} of {name!r} ({fault.reason}: {fault}); leave the "
                    "data set out, or change its settings"
                ) from fault
            task = Task(f"{name}/{number}", name, f"{name}/{number}")
            found.append(Question(task=task, kind="reasoning_gym", text=text, grader=program, instance=number))
    return found
