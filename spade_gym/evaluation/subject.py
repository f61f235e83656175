"""Who is evaluated: a model's spec, or the checkpoint of a self-play run that a rule names beforehand.

The rule is resolved once, before anything is sampled, and stands in the evaluation's manifest from then on: which
checkpoint counts is never chosen by looking at results.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spade_gym.evaluation.suite import SuiteError
from spade_gym.plain_file import shown
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.run_store import FILE_NAME, RunStore
from spade_gym.selfplay.settings_table import read_table

#: As a base: the model with which the run began.
INITIAL = "initial"
_EDGE_BYTES = 1 << 20
#: Engines in this process whose settings hold for a checkpoint of theirs too.
_SAME_ENGINE = ("transformers", "smollm2")


class Subject(NamedTuple):
    """A model to be opened.

    Attributes:
        spec: For ``open_model``.
        options: Settings of its engine.
        origin: JSON values for the manifest: the spec, and of a run the rule, the rollout that it named, how many the
            run has, and a digest of the weights (of a local folder: names, sizes, and both ends of each file).
    """

    spec: str
    options: dict[str, Any]
    origin: dict[str, Any]


def is_run(spec: str) -> bool:
    """Tell whether a model's spec is the folder of a self-play run."""
    return os.path.isfile(os.path.join(spec, FILE_NAME))


def subject_of(spec: str, options: Mapping[str, Any], checkpoint: str | None) -> Subject:
    """Return what a spec means.

    Args:
        spec: As for ``open_model``, or a run's folder.
        options: Settings of its engine.
        checkpoint: ``last`` or the number of a rollout; absent: ``last`` of a run.

    Raises:
        SuiteError: A rule is given for something that is no run, or the run has no such checkpoint.
        SpadeError: The run cannot be read.
    """
    if not is_run(spec):
        if checkpoint is not None:
            raise SuiteError(f"checkpoint chooses among those of a self-play run, and {spec!r} is no run's folder")
        return Subject(spec, dict(options), {"spec": spec, "weights": _weights_of(spec)})
    rule = checkpoint or "last"
    with RunStore(spec, read_only=True) as store:
        saved = [int(row["rollout"]) for row in store.rows("SELECT rollout FROM checkpoints ORDER BY rollout")]
        recipe = read_table(Recipe, store.meta("recipe"), f"{store.path}, recipe")
    rollout = _rollout(Path(spec), saved, rule)
    return _at_checkpoint(spec, recipe, options, {"rule": rule, "rollout": rollout, "of": recipe.cycle.rollouts})


def kept_subject(
    spec: str, options: Mapping[str, Any], checkpoint: str | None, origin: Any, *, is_done: bool
) -> Subject | None:
    """Return the checkpoint that an evaluation which goes on has declared; ``None`` where it has declared none.

    Args:
        spec: As for ``subject_of``.
        options: Settings of its engine.
        checkpoint: The rule that is given now.
        origin: Of the kept manifest; absent for a new evaluation.
        is_done: Nothing is missing, so the checkpoint itself is not needed any more.

    Raises:
        SuiteError: The checkpoint is gone.
        SpadeError: The run cannot be read.
    """
    chosen = origin.get("checkpoint") if isinstance(origin, dict) else None
    if not (is_run(spec) and isinstance(chosen, dict) and chosen.get("rule") == (checkpoint or "last")):
        return None
    if is_done and origin.get("spec") == spec:
        return Subject("", {}, origin)
    if not isinstance(chosen.get("rollout"), int):
        raise SuiteError(
            f"the manifest names the checkpoint {shown(chosen)}, which is none; evaluate into another folder"
        )
    with RunStore(spec, read_only=True) as store:
        recipe = read_table(Recipe, store.meta("recipe"), f"{store.path}, recipe")
    return _at_checkpoint(spec, recipe, options, chosen)


def _at_checkpoint(spec: str, recipe: Recipe, options: Mapping[str, Any], chosen: dict[str, Any]) -> Subject:
    """Return the model of a checkpoint that has been chosen.

    Raises:
        SuiteError: It is no longer there, or is no model by itself.
    """
    folder = Path(spec) / "checkpoints" / f"{chosen['rollout']:06d}"
    if folder.is_symlink() or not folder.is_dir():
        raise SuiteError(f"the checkpoint {folder} is gone (a run keeps its last two); copy it before the run goes on")
    if (folder / "adapter").is_dir():
        raise SuiteError(
            f"{folder} holds adapters and not a whole model; merge them with peft (merge_and_unload, save_pretrained) "
            "and evaluate transformers:FOLDER"
        )
    if not (folder / "config.json").is_file():
        raise SuiteError(f"{folder} is no model: the run's trainer, {recipe.trainer.name}, saved none there")
    opened = f"transformers:{folder}"
    own = recipe.models.agent_options if recipe.models.agent.partition(":")[0] in _SAME_ENGINE else {}
    origin = {"spec": spec, "checkpoint": chosen, "weights": _weights_of(opened)}
    return Subject(opened, {**own, **options}, origin)


def initial_of(spec: str, options: Mapping[str, Any]) -> Subject:
    """Return the model with which a run began.

    Raises:
        SuiteError: The spec is no run's folder.
    """
    if not is_run(spec):
        raise SuiteError(f"the base {INITIAL!r} is the model with which a run began, and {spec!r} is no run's folder")
    with RunStore(spec, read_only=True) as store:
        models = read_table(Recipe, store.meta("recipe"), f"{store.path}, recipe").models
    origin = {"spec": models.agent, "weights": _weights_of(models.agent)}
    return Subject(models.agent, {**models.agent_options, **options}, origin)


def _rollout(folder: Path, saved: list[int], rule: str) -> int:
    if not saved:
        raise SuiteError(f"the run in {folder} has no checkpoint yet")
    if rule == "last":
        return saved[-1]
    if int(rule) not in saved:
        here = [str(rollout) for rollout in saved if (folder / "checkpoints" / f"{rollout:06d}").is_dir()]
        raise SuiteError(f"the run in {folder} has no checkpoint {rule}; it has those of {', '.join(here) or 'none'}")
    return int(rule)


def _weights_of(spec: str) -> str | None:
    """A digest of the weights in a local folder; ``None`` for anything else."""
    engine, _, place = spec.partition(":")
    if engine not in ("transformers", "vllm") or not os.path.isdir(place):
        return None
    digest = hashlib.sha256()
    for file in sorted(Path(place).iterdir()):
        if file.suffix in (".safetensors", ".json") and file.is_file():
            size = file.stat().st_size
            with open(file, "rb") as content:
                ends = content.read(_EDGE_BYTES)
                content.seek(max(0, size - _EDGE_BYTES))
                ends += content.read(_EDGE_BYTES)
            digest.update(repr((file.name, size)).encode() + ends)
    return digest.hexdigest()
