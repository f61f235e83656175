"""Programs as a suite: instances that no training uses, played through rollouts."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from spade_gym.evaluation.suite import Conditions, Order, Result, SuiteError, Task
from spade_gym.evaluation.unseen_seeds import unseen_seeds
from spade_gym.locate import locate
from spade_gym.models.base import LanguageModel
from spade_gym.pool import Pool, registry
from spade_gym.programs.program import Program
from spade_gym.rollout.gameplay_prompt import read_templates
from spade_gym.rollout.play import Play, PlayOrder
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import stream_plays
from spade_gym.storable import storable

#: Instances of each program, where nothing is said.
INSTANCES = 16
_REPLY_ENDINGS = (".md", ".py", ".txt")


class ProgramSuite:
    """Instances of programs.

    A task is an instance. The instances of a program form a cluster, so intervals speak about programs like these;
    of one program alone, each instance is one.

    Args:
        programs: Each source once.
        name: For reports.
        instances: Of each program, the same seeds for all of them (``unseen_seeds.py``).
        seed: Chooses the seeds.

    Raises:
        SuiteError: There is no program, or one is there twice.
    """

    def __init__(
        self, programs: Sequence[Program], *, name: str = "programs", instances: int = INSTANCES, seed: int = 0
    ) -> None:
        if not programs:
            raise SuiteError(f"the suite {name} holds no program")
        if instances < 1:
            raise SuiteError(f"each program needs at least one instance, got {instances}")
        digests = [program.digest for program in programs]
        if twice := next((digest for digest in digests if digests.count(digest) > 1), None):
            raise SuiteError(f"the suite {name} holds the program {twice[:12]} twice; leave one of them out")
        self.name = name
        self.clusters = "programs" if len(programs) > 1 else "instances"
        self._programs = tuple(programs)
        self._seeds = unseen_seeds(instances, seed=seed)
        self._instances = [(program, instance) for program in self._programs for instance in self._seeds]
        self.tasks: Sequence[Task] = tuple(self._task(program, instance) for program, instance in self._instances)

    def _task(self, program: Program, instance: int) -> Task:
        label = f"{program.name}-{program.digest[:8]}"
        name = f"{label}/{instance}"
        return Task(name, label, label if len(self._programs) > 1 else name)

    def describe(self) -> dict[str, Any]:
        """Digests of the programs with their manifests, and the seeds."""
        manifests = {
            program.digest: hashlib.sha256(program.manifest.to_toml(program.digest).encode()).hexdigest()
            for program in self._programs
        }
        return {"kind": "programs", "programs": manifests, "instances": list(self._seeds)}

    def prompts(self, player: PlayerSettings) -> dict[str, str]:
        """Digests of the gameplay prompts of the programs' settings; see ``Suite``."""
        templates = read_templates(example=player.example, folder=player.prompts)
        settings = sorted({program.setting for program in self._programs})
        return {setting: hashlib.sha256(repr(templates[setting]).encode()).hexdigest() for setting in settings}

    def work(self, orders: Sequence[Order], model: LanguageModel, conditions: Conditions) -> Generator[Result]:
        """Play the orders' instances without hints; see ``Suite``."""
        by_key = {order.key: order for order in orders}
        plays = (
            PlayOrder(order.key, *self._instances[order.task], arm="plain", sampling_seed=order.seed)
            for order in orders
        )
        stream = stream_plays(
            plays, model, settings=conditions.player, isolation=conditions.isolation or None,
            max_in_flight=conditions.max_in_flight, progress=conditions.progress,
        )  # fmt: skip
        with contextlib.closing(stream):
            for play in stream:
                yield _result(by_key[play.key], play)


def _result(order: Order, play: Play) -> Result:
    ok = play.status == "ok"
    return Result(
        task=order.task,
        sample=order.sample,
        score=play.total if ok else None,
        right=play.won,
        ended=play.ended if ok else "aborted" if play.status == "aborted" else "faulty",
        note=storable(play.fault),
        said=tuple(storable(turn.completion) for turn in play.turns),
        prompt_tokens=play.prompt_tokens,
        completion_tokens=play.completion_tokens,
    )


def find_programs(text: str) -> list[Program]:
    """Return the programs that a text means.

    Args:
        text: ``spade`` (all bundled ones); a pool's folder; a folder of replies (``.md``, ``.txt``) or programs
            (``.py``), in the order of their names; or what ``locate`` takes, several separated by commas.

    Raises:
        SpadeError: There are none, or one cannot be read.
    """
    if text == "spade":
        return list(registry().survey().programs)
    path = Path(text)
    if not path.is_dir() or (path / "manifest.toml").exists():
        return [locate(key.strip()) for key in text.split(",") if key.strip()]
    files = sorted(file for file in path.iterdir() if file.suffix in _REPLY_ENDINGS and not file.name.startswith("."))
    if files:
        return [locate(file) for file in files]
    survey = Pool(path).survey()
    if survey.damages:
        damage = survey.damages[0]
        raise SuiteError(f"the pool {text!r} is damaged: {damage.entry}: {damage.problem}")
    if not survey.programs:
        raise SuiteError(f"{text!r} holds neither entries of a pool nor replies ({', '.join(_REPLY_ENDINGS)})")
    return list(survey.programs)
