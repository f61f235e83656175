"""What would a recipe do? Numbers of calls, plays and tokens, before anything is spent."""

from __future__ import annotations

from typing import NamedTuple

from spade_gym import plugins
from spade_gym.designer.open_designer import BUILT_IN as DESIGNERS
from spade_gym.designer.screen import NUM_TRIES as SCREEN_TRIES
from spade_gym.designer.screen import SCREEN_SAMPLING
from spade_gym.models.open_model import known_specs
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.window import check_reward


class Plan(NamedTuple):
    """Upper bounds of what a run does; repairs of one attempt count as attempts.

    Attributes:
        regenerations: Pools asked for.
        designer_calls: Replies of the designer, from one a program to every attempt used up.
        hint_calls: Calls of the hint writer, likewise.
        screen_calls: Calls of the screen, likewise.
        plain_plays: Plays without the hint.
        hint_plays: Plays with it.
        turns: Most replies of the agent.
        updates: Optimiser steps.
        designer_tokens: Most sampled tokens of designer, hints and screen.
        agent_tokens: Most sampled tokens of the agent.
        skills: Skills of each regeneration, of the first cycle through them.
    """

    regenerations: int
    designer_calls: tuple[int, int]
    hint_calls: tuple[int, int]
    screen_calls: tuple[int, int]
    plain_plays: int
    hint_plays: int
    turns: int
    updates: int
    designer_tokens: int
    agent_tokens: int
    skills: tuple[tuple[str, ...], ...]


def plan_of(recipe: Recipe) -> Plan:
    """Count.

    Raises:
        RecipeError: The reward's scorer does not take its options.
    """
    check_reward(recipe.reward)
    cycle, designer, hints, agent = recipe.cycle, recipe.designer, recipe.hints, recipe.agent
    windows = -(-cycle.rollouts // cycle.regenerate_every)
    regenerations = 1 if cycle.pool == "fixed" else windows
    per_pool = cycle.fixed_programs if cycle.pool == "fixed" else cycle.environments
    programs = regenerations * per_pool
    attempts = designer.max_attempts * (1 + designer.max_repairs)
    is_model = designer.name == "model"
    hinted = hints.source == "model" and cycle.hint_plays > 0
    screened = designer.screen and cycle.setting == "tool_use"
    calls = (programs, programs * attempts) if is_model else (0, 0)
    hint_calls = (programs, programs * hints.num_tries) if hinted else (0, 0)
    screen_calls = (programs, programs * attempts * SCREEN_TRIES) if screened else (0, 0)
    plain = cycle.rollouts * cycle.environments * cycle.plays
    hint_plays = windows * cycle.environments * cycle.hint_plays
    plays = plain + hint_plays
    return Plan(
        regenerations=regenerations,
        designer_calls=calls,
        hint_calls=hint_calls,
        screen_calls=screen_calls,
        plain_plays=plain,
        hint_plays=hint_plays,
        turns=plays * agent.max_turns,
        updates=cycle.rollouts + (1 if designer.train else 0),
        designer_tokens=calls[1] * designer.max_tokens
        + hint_calls[1] * hints.max_tokens
        + screen_calls[1] * SCREEN_SAMPLING.max_tokens,
        agent_tokens=plays * min(agent.total_tokens, agent.max_turns * agent.turn_tokens),
        skills=_skills(recipe, regenerations),
    )


def missing_parts(recipe: Recipe) -> list[str]:
    """Name the parts of a recipe that are not installed here; what these need themselves is not looked at."""
    trainers = {plugin.name for plugin in plugins.available("trainers")}
    designers = {*DESIGNERS, *(plugin.name for plugin in plugins.available("designers"))}
    models = {spec.partition(":")[0] for spec in known_specs()}
    wanted = [
        ("trainer", recipe.trainer.name, trainers),
        ("designer", recipe.designer.name.partition(":")[0], designers),
        ("model", recipe.models.agent.partition(":")[0], models),
        ("model", recipe.models.designer.partition(":")[0], {*models, "agent"}),
    ]
    return [
        f"there is no {kind} {name!r} here; there are {', '.join(sorted(known))}"
        for kind, name, known in wanted
        if name not in known
    ]


def _skills(recipe: Recipe, regenerations: int) -> tuple[tuple[str, ...], ...]:
    settings, count = recipe.requests(), recipe.cycle.skills_per_regeneration
    return tuple(
        tuple(settings.skill(epoch, index) for index in range(count)) for epoch in range(min(regenerations, 6))
    )
