"""Everybody who takes part in a run, opened from its recipe."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from spade_gym import plugins
from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.designer.attempts import Judge
from spade_gym.designer.corpus import Corpus, default_corpus, open_corpus
from spade_gym.designer.diversity import Diversity
from spade_gym.designer.hints import HintWriter
from spade_gym.designer.open_designer import open_designer
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.screen import Screen
from spade_gym.models.base import LanguageModel
from spade_gym.models.open_model import open_model
from spade_gym.prompt_folder import corpus_path, prompt_folder
from spade_gym.rollout.rollout import Counts
from spade_gym.sandbox.base import Isolation
from spade_gym.selfplay.plan import missing_parts
from spade_gym.selfplay.recipe import Recipe, differences
from spade_gym.selfplay.regeneration import Workshop
from spade_gym.selfplay.run_manifest import manifest_of
from spade_gym.selfplay.run_store import RunStore
from spade_gym.selfplay.settings_table import RecipeError, read_table
from spade_gym.selfplay.trainer import Trainer
from spade_gym.selfplay.window import check_reward
from spade_gym.validation.validate import validate


class Report(Protocol):
    """Who is told how a run goes."""

    def say(self, text: str) -> None:
        """Something happened that a person should know."""

    def progress(self, label: str, total: int) -> AbstractContextManager[Callable[[Counts], None]]:
        """Plays begin; what is returned is told the counts, and left when they are over."""


class Silence:
    """A report that nobody reads."""

    def say(self, text: str) -> None:
        """Do nothing."""

    @contextlib.contextmanager
    def progress(self, label: str, total: int) -> Iterator[Callable[[Counts], None]]:
        """Do nothing."""
        yield lambda counts: None


@dataclass(frozen=True, slots=True)
class Run:
    """Who takes part.

    Attributes:
        recipe: What they were told.
        store: Where everything is kept.
        agent: The model that plays.
        workshop: Who makes pools.
        trainer: Who changes the weights.
        report: Who is told how it goes.
        models: All models, to be closed.
    """

    recipe: Recipe
    store: RunStore
    agent: LanguageModel
    workshop: Workshop
    trainer: Trainer
    report: Report
    models: tuple[LanguageModel, ...]

    def close(self) -> None:
        """Close the models and the store."""
        try:
            for model in self.models:
                model.close()
        finally:
            self.store.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_run(
    recipe: Recipe,
    folder: Path | str,
    *,
    report: Report | None = None,
    agent: LanguageModel | None = None,
    designer_model: LanguageModel | None = None,
    judge: Judge | None = None,
) -> Run:
    """Open a run, new or to be gone on with.

    Args:
        recipe: What it is told; of a run that was begun, it must be the same.
        folder: The run's folder.
        report: Who is told how it goes.
        agent: The model that plays, where it is not to be opened from the recipe.
        designer_model: The model behind designer, hints and screen, likewise.
        judge: Runs the checks on a program; all of ``spade_gym.validation`` by default.

    Raises:
        StoreError: The folder holds a run with another recipe, or something else.
        SpadeError: A part cannot be opened.
    """
    store = RunStore(folder)
    models: list[LanguageModel] = []
    try:
        _check_recipe(store, recipe)
        _check_parts(recipe, agent)
        make_trainer = plugins.load("trainers", recipe.trainer.name)
        agent = agent or open_model(recipe.models.agent, **recipe.models.agent_options)
        models.append(agent)
        if designer_model is None:
            designer_model = _designer_model(recipe, agent)
        if designer_model is not None and designer_model is not agent:
            models.append(designer_model)
        workshop = _workshop(recipe, store, designer_model, judge)
        trainer: Trainer = make_trainer(agent, recipe.trainer.options)
        store.set_meta("recipe", recipe.to_json())
        _write_manifest(store, recipe, agent, workshop)
        return Run(recipe, store, agent, workshop, trainer, report or Silence(), tuple(models))
    except BaseException:
        for model in models:
            model.close()
        store.close()
        raise


def _check_parts(recipe: Recipe, agent: LanguageModel | None) -> None:
    """Refuse names of parts that are not installed before any weights are loaded."""
    check_reward(recipe.reward)
    missing = [text for text in missing_parts(recipe) if agent is None or "no model" not in text]
    if missing:
        raise RecipeError("; ".join(missing))


def _check_recipe(store: RunStore, recipe: Recipe) -> None:
    """Refuse to go on with a run under another recipe."""
    kept = store.meta("recipe")
    if kept is None:
        return
    before = read_table(Recipe, kept, f"{store.path}, recipe")
    if before.digest != recipe.digest:
        changes = "; ".join(
            f"{name} was {old!r} and is {new!r}" for name, (old, new) in differences(before, recipe).items()
        )
        raise StoreError(
            f"the run in {store.folder} was begun with other settings: {changes}. Start it with the settings that it "
            "had, or begin another run in another folder"
        )


def _needs_model(recipe: Recipe) -> bool:
    screened = recipe.designer.screen and recipe.cycle.setting == "tool_use"
    return recipe.designer.name == "model" or recipe.hints.source == "model" or screened


def _designer_model(recipe: Recipe, agent: LanguageModel) -> LanguageModel | None:
    if not _needs_model(recipe):
        return None
    if recipe.models.designer == "agent":
        return agent
    opened: LanguageModel = open_model(recipe.models.designer, **recipe.models.designer_options)
    return opened


def _workshop(recipe: Recipe, store: RunStore, model: LanguageModel | None, judge: Judge | None) -> Workshop:
    settings, hints, cycle = recipe.designer, recipe.hints, recipe.cycle
    isolation = cycle.isolation or None
    prompts = Prompts(prompt_folder(settings.prompts, "designer"))
    own = (
        {"sampling": settings.sampling(), "thinking": settings.thinking, "prompts": prompts}
        if settings.name == "model"
        else {}
    )
    hint_writer = None
    if hints.source == "model" and cycle.hint_plays:
        assert model is not None
        hint_writer = HintWriter(
            model,
            hints.sampling(),
            thinking=hints.thinking,
            prompts=prompts,
            num_tries=hints.num_tries,
            seed=cycle.seed,
            isolation=isolation,
        )
    screen = None
    if settings.screen and cycle.setting == "tool_use":
        assert model is not None
        screen = Screen(model, thinking=settings.thinking, seed=cycle.seed, isolation=isolation)
    return Workshop(
        recipe=recipe,
        store=store,
        designer=open_designer(settings.name, model=model, **own),
        corpus=_corpus(recipe),
        hint_writer=hint_writer,
        screen=screen,
        diversity=Diversity(),
        judge=judge
        or functools.partial(validate, isolation=Isolation.parse(isolation), reset_gate=settings.reset_gate),
    )


def _corpus(recipe: Recipe) -> Corpus | None:
    name = recipe.designer.corpus
    if name == "none":
        return None
    return default_corpus(recipe.cycle.setting) if name == "default" else open_corpus(corpus_path(name))


def _write_manifest(store: RunStore, recipe: Recipe, agent: LanguageModel, workshop: Workshop) -> None:
    """Write ``manifest.json`` once; a run that goes on keeps the one that it was begun with."""
    path = store.folder / "manifest.json"
    if os.path.lexists(path):
        return
    text = json.dumps(manifest_of(recipe, agent, workshop), indent=2) + "\n"
    descriptor, partial = tempfile.mkstemp(dir=store.folder, prefix="manifest-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, path)
