"""One evaluation from top to bottom: declare, sample, grade, compare.

1. What is evaluated, on which tasks, by which rule and with which settings is written into ``manifest.json``.
2. The model works on every task k times, each with a seed of its own; the base does the same, with the same seeds.
3. Each result is kept as it comes. An evaluation that is started again does what is missing, and nothing twice.
4. avg@k and pass@k with their intervals, and the paired difference, are computed from all results.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spade_gym.evaluation.figures import Comparison, Figures, comparison, figures
from spade_gym.evaluation.open_suite import open_suite
from spade_gym.evaluation.records import Records
from spade_gym.evaluation.settings import EvaluationSettings, pass_ks
from spade_gym.evaluation.subject import INITIAL, Subject, initial_of, is_run, kept_subject, subject_of
from spade_gym.evaluation.suite import Conditions, Order, Suite
from spade_gym.models.base import LanguageModel, ModelError
from spade_gym.models.open_model import open_model
from spade_gym.selfplay.run import Report, Silence
from spade_gym.selfplay.run_manifest import versions

#: The two who work on a suite.
MODEL, BASE = "model", "base"
#: Stream of the evaluation's seed for the models' draws.
_DRAWS = 42
#: So many failures of a model in a row are an outage.
_OUTAGE = 16


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        manifest: What was declared before it began.
        suite: Name of the suite.
        clusters: What its intervals resample.
        num_tasks: Tasks of the suite.
        k: Samples of each.
        model: What the model reached.
        base: What the base reached; ``None`` without one.
        difference: The model minus the base; ``None`` without one.
        names: What the models say they are.
        missing: Samples that could not be asked because a model failed, by arm, with a reason: start it again.
    """

    manifest: dict[str, Any]
    suite: str
    clusters: str
    num_tasks: int
    k: int
    model: Figures
    base: Figures | None
    difference: Comparison | None
    names: dict[str, dict[str, Any]]
    missing: dict[str, tuple[int, str]]

    def to_json(self) -> dict[str, Any]:
        """The evaluation as JSON values."""
        return asdict(self)


def evaluate(
    model: LanguageModel | str,
    suite: Suite | str,
    *,
    base: LanguageModel | str | None = None,
    folder: Path | str | None = None,
    report: Report | None = None,
    **settings: Any,
) -> Evaluation:
    """Evaluate a model on a suite.

    Args:
        model: An open model, a spec for ``open_model``, or the folder of a self-play run, whose checkpoint is chosen
            by the setting ``checkpoint``. Models that are given open stay open.
        suite: Tasks, or a text for ``open_suite``.
        base: Compared with it on the same tasks and seeds; ``initial`` is the model with which the run began.
        folder: Where results are kept; the same one goes on. Absent: nowhere.
        report: Told how it goes.
        **settings: Those of ``EvaluationSettings``: ``k``, ``tasks``, ``seed``, ``agent`` …

    Raises:
        StoreError: The folder holds another evaluation, or is in use.
        SuiteError: There is no such suite, or no such checkpoint.
        ModelError: A model cannot be opened, refuses a request, or failed 16 times in a row.
        SandboxError: The sandbox is broken.
    """
    told = EvaluationSettings(**settings)
    with Records(None if folder is None else Path(folder)) as records:
        tasks = suite
        if isinstance(tasks, str):
            tasks = open_suite(
                tasks, tasks=told.tasks, seed=told.seed, options=told.suite_options, isolation=told.isolation
            )
        orders = {arm: _orders(arm, len(tasks.tasks), told) for arm in (MODEL, BASE)[: 1 if base is None else 2]}
        arms = _arms(model, base, told, records, orders)
        manifest = _manifest(told, tasks, arms)
        records.begin(manifest)
        work = _Work(tasks, told, records, report or Silence())
        missing = {}
        for arm, subject in arms.items():
            failed = work.have_done(arm, subject, orders[arm])
            if failed is not None:
                missing[arm] = failed
        return _evaluation(tasks, told, records, missing, manifest)


def _orders(arm: str, num_tasks: int, settings: EvaluationSettings) -> list[Order]:
    """Every task k times; both arms draw with the same seeds."""
    return [
        Order(f"eval/{arm}/{task}/{sample}", task, sample, _seed(settings.seed, task, sample))
        for task in range(num_tasks)
        for sample in range(settings.k)
    ]


def _seed(seed: int, task: int, sample: int) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=(_DRAWS, task, sample)).generate_state(1)[0]) >> 1


def _arms(
    model: LanguageModel | str,
    base: LanguageModel | str | None,
    settings: EvaluationSettings,
    records: Records,
    orders: dict[str, list[Order]],
) -> dict[str, Subject | LanguageModel]:
    """Who works, before anybody is opened."""
    arms: dict[str, Subject | LanguageModel] = {}
    kept = records.kept_manifest() or {}
    if isinstance(model, str):
        done = len(records.results(MODEL)) >= len(orders[MODEL])
        again = kept_subject(model, settings.model_options, settings.checkpoint, kept.get(MODEL), is_done=done)
        arms[MODEL] = again or subject_of(model, settings.model_options, settings.checkpoint)
    else:
        arms[MODEL] = model
    if isinstance(base, str):
        if base == INITIAL:
            arms[BASE] = initial_of(model if isinstance(model, str) else "", settings.base_options)
        else:
            rule = "last" if is_run(base) else None
            done = len(records.results(BASE)) >= len(orders[BASE])
            again = kept_subject(base, settings.base_options, rule, kept.get(BASE), is_done=done)
            arms[BASE] = again or subject_of(base, settings.base_options, rule)
    elif base is not None:
        arms[BASE] = base
    return arms


def _manifest(settings: EvaluationSettings, suite: Suite, arms: dict[str, Subject | LanguageModel]) -> dict[str, Any]:
    """What is declared before anything is sampled."""
    origins: dict[str, dict[str, Any]] = {
        arm: subject.origin if isinstance(subject, Subject) else {"given": subject.name}
        for arm, subject in arms.items()
    }
    return {
        "settings": settings.to_json(),
        "suite": {"name": suite.name, **suite.describe()},
        "prompts": suite.prompts(settings.agent.player()),
        MODEL: origins[MODEL],
        BASE: origins.get(BASE),
        "checkpoint_rule": origins[MODEL].get("checkpoint", {}).get("rule", "the model as it is given"),
        "versions": {"python": platform.python_version(), **versions()},
        "platform": platform.platform(),
    }


class _Work:
    """Has the models do what is missing."""

    def __init__(self, suite: Suite, settings: EvaluationSettings, records: Records, report: Report) -> None:
        self._suite = suite
        self._settings = settings
        self._records = records
        self._report = report

    def have_done(self, arm: str, subject: Subject | LanguageModel, orders: Sequence[Order]) -> tuple[int, str] | None:
        """Have an arm's orders done; return how many could not be because the model failed, with a reason."""
        known = self._records.results(arm)
        missing = [order for order in orders if (order.task, order.sample) not in known]
        if len(missing) < len(orders):
            self._report.say(f"{arm}: {len(orders) - len(missing):,} of {len(orders):,} results are there already")
        if not missing:
            return None
        if not isinstance(subject, Subject):
            return self._have_done(arm, subject, missing)
        model = open_model(subject.spec, **subject.options)
        with contextlib.closing(model):
            return self._have_done(arm, model, missing)

    def _have_done(self, arm: str, model: LanguageModel, orders: Sequence[Order]) -> tuple[int, str] | None:
        self._records.meet(arm, {"name": model.name, "tokenizer": getattr(model.chat_format, "digest", None)})
        failed, in_a_row, reason = 0, 0, ""
        with self._report.progress(arm, len(orders)) as progress:
            conditions = Conditions(
                player=self._settings.agent.player(),
                isolation=self._settings.isolation,
                max_in_flight=self._settings.max_in_flight,
                progress=progress,
            )
            with contextlib.closing(self._suite.work(orders, model, conditions)) as stream:
                for result in stream:
                    if result.ended != "aborted":
                        self._records.add(arm, result)
                        in_a_row = 0
                        continue
                    failed, in_a_row, reason = failed + 1, in_a_row + 1, reason or result.note
                    if in_a_row >= _OUTAGE:
                        raise ModelError(
                            f"{model.name} failed {in_a_row} times in a row: {result.note}; what was graded is kept, "
                            "start the same command again"
                        )
        return (failed, reason) if failed else None


def _evaluation(
    suite: Suite,
    settings: EvaluationSettings,
    records: Records,
    missing: dict[str, tuple[int, str]],
    manifest: dict[str, Any],
) -> Evaluation:
    ks = pass_ks(settings.k)
    ours, theirs = records.results(MODEL).values(), records.results(BASE).values()
    has_base = manifest[BASE] is not None
    return Evaluation(
        manifest=manifest,
        suite=suite.name,
        clusters=suite.clusters,
        num_tasks=len(suite.tasks),
        k=settings.k,
        model=figures(suite.tasks, ours, ks),
        base=figures(suite.tasks, theirs, ks) if has_base else None,
        difference=comparison(suite.tasks, ours, theirs, ks) if has_base else None,
        names={arm: records.model(arm) for arm in (MODEL, BASE) if records.model(arm)},
        missing=missing,
    )
