"""A recipe: everything that a self-play run is told, as one TOML file of small tables.

TOML has no null: a setting that may be absent (``None`` here) is left out, or given as ``"none"`` on the command line.
Source of the defaults: method, sections 1 to 8; where a value departs from the paper, the recipe's ``notes`` say so.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spade_gym import plugins
from spade_gym.curriculum.memory import Eviction
from spade_gym.curriculum.scorers import BUILT_IN
from spade_gym.designer.attempts import Rules
from spade_gym.designer.request import Difficulty
from spade_gym.designer.request_plan import RequestSettings
from spade_gym.models.base import Sampling
from spade_gym.prompt_folder import prompt_folder
from spade_gym.rollout.player_settings import PlayerSettings, ReturnRule
from spade_gym.sandbox.base import Isolation
from spade_gym.types import Setting


def _at_least(owner: object, least: int, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSettings:
    """The rhythm of a run (method, section 1).

    Attributes:
        setting: Of every program.
        seed: Seeds everything that is drawn.
        rollouts: Optimiser steps.
        regenerate_every: K: rollouts between two regenerations, and the delay of the designer's update.
        environments: Programs of a pool.
        plays: G: plays of each environment without the hint, every rollout.
        hint_plays: Plays of each environment with the hint, at a regeneration; 0 for no hint arm.
        skills: Skills in rotation; empty for the six of the setting. Two of them are the *two skills* ablation.
        skills_per_regeneration: How many of them a regeneration asks for.
        pool: ``regenerated``: a new pool every K rollouts (a *static pool* drawn without replacement is the designer
            ``registry:POOL``). ``fixed``: the programs of the first regeneration stay, and ``choice`` says which of
            them are played.
        choice: Of a fixed pool: ``uniform`` (each once before any is played again), ``sliding-difficulty`` or
            ``learning-potential``.
        fixed_programs: Programs of a fixed pool, at least ``environments``.
        least_accepted: Share of a pool that must be accepted, or the old pool stays.
        max_in_flight: Most plays under way.
        max_sessions: Most worker processes.
        in_order: Act on replies in the order of their requests, so that a run repeats exactly whatever a server answers
            first; otherwise on whatever is there, which keeps a server busier.
        isolation: Level of the programs' isolation; "" for the default.
    """

    setting: Setting = "multi_turn"
    seed: int = 0
    rollouts: int = 400
    regenerate_every: int = 4
    environments: int = 24
    plays: int = 16
    hint_plays: int = 16
    skills: tuple[str, ...] = ()
    skills_per_regeneration: int = 3
    pool: Literal["regenerated", "fixed"] = "regenerated"
    choice: Literal["uniform", "sliding-difficulty", "learning-potential"] = "uniform"
    fixed_programs: int = 0
    least_accepted: float = 0.5
    max_in_flight: int = 1024
    max_sessions: int = 64
    in_order: bool = True
    isolation: str = ""

    def __post_init__(self) -> None:
        """Refuse a rhythm that cannot be played."""
        _at_least(self, 1, "rollouts", "regenerate_every", "environments", "plays", "skills_per_regeneration")
        _at_least(self, 1, "max_in_flight", "max_sessions")
        _at_least(self, 0, "hint_plays", "seed")
        if not 0 <= self.least_accepted <= 1:
            raise ValueError(f"least_accepted must be a share from 0 to 1, got {self.least_accepted!r}")
        if self.pool == "fixed" and self.fixed_programs < self.environments:
            raise ValueError(
                f"a fixed pool needs fixed_programs of at least environments = {self.environments}, "
                f"got {self.fixed_programs}"
            )
        Isolation.parse(self.isolation or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Who plays, writes programs, and writes hints: see ``spade_gym.models.open_model`` for the texts.

    Attributes:
        agent: The model that plays.
        designer: The model behind the designer ``model``, the hints and the screen; ``agent`` is the same one.
        agent_options: Settings of the agent's engine (``docs/models.md``). No keys of servers: these come from the
            environment.
        designer_options: The same of the designer's, where it is another model.
    """

    agent: str = "smollm2"
    designer: str = "agent"
    agent_options: dict[str, Any] = field(default_factory=dict)
    designer_options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignerSettings:
    """How programs come about (method, sections 2 and 4).

    Attributes:
        name: ``model``, ``recorded``, ``registry``, ``mutate`` … (``spade_gym.designer.open_designer``).
        train: Whether the designer's replies are trained on; off in the ablation *no designer training*, and where
            another model designs.
        corpus: ``default``, ``none`` (the ablation without one), a path, or the name of an installed package of prompts
            that brings one along.
        max_words: Words of a document that a request holds; absent: 6,000 for games, 4,000 for tool use.
        difficulties: Drawn from.
        max_attempts, max_repairs: As in ``spade_gym.designer.attempts.Rules``.
        min_instructions, max_instructions: Of tool-use programs.
        screen: Whether a model screens tool-use programs.
        reset_gate: ``any``: our rule; ``all``: the paper's (method, section 4, point 3).
        temperature, top_p, top_k, max_tokens: Of its sampling.
        thinking: Whether the model may think first; absent leaves it to its template.
        prompts: A folder with templates of one's own, or the name of an installed package's
            (``spade_gym.prompt_folder``); "" for the shipped ones. The hint writer uses them too.
        rejected_reward: Reward of replies that were not accepted; absent: they are not trained on, as in the paper.
        jobs: Programs checked at a time.
    """

    name: str = "model"
    train: bool = True
    corpus: str = "default"
    max_words: int | None = None
    difficulties: tuple[Difficulty, ...] = ("easy", "medium", "hard")
    max_attempts: int = 5
    max_repairs: int = 0
    min_instructions: int = 3
    max_instructions: int = 5
    screen: bool = True
    reset_gate: Literal["any", "all"] = "any"
    temperature: float = 0.6
    top_p: float = 0.95
    top_k: int = 20
    max_tokens: int = 16_384
    thinking: bool | None = None
    prompts: str = ""
    rejected_reward: float | None = None
    jobs: int = 2

    def __post_init__(self) -> None:
        """Refuse what the designer's parts would refuse later."""
        self.sampling()
        self.rules()

    def sampling(self) -> Sampling:
        """How its replies are drawn."""
        return Sampling(self.max_tokens, self.temperature, self.top_p, self.top_k)

    def rules(self) -> Rules:
        """When a request is given up."""
        return Rules(max_attempts=self.max_attempts, max_repairs=self.max_repairs, jobs=self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class HintSettings:
    """Where hints come from (method, section 5).

    Attributes:
        source: ``model``: written by the designer's model; ``manifest``: only those that programs bring along.
        temperature, max_tokens: Of the hint writer's sampling.
        num_tries: How often a hint is asked for.
        thinking: As for the designer.
    """

    source: Literal["model", "manifest"] = "model"
    temperature: float = 0.3
    max_tokens: int = 4096
    num_tries: int = 4
    thinking: bool | None = None

    def __post_init__(self) -> None:
        """Refuse what the hint writer would refuse later."""
        _at_least(self, 1, "num_tries")
        self.sampling()

    def sampling(self) -> Sampling:
        """How hints are drawn."""
        return Sampling(max_tokens=self.max_tokens, temperature=self.temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How the agent plays; see ``spade_gym.rollout.player_settings.PlayerSettings``.

    Attributes:
        temperature, top_p, top_k: Of its sampling.
        turn_tokens: Most sampled tokens of a turn.
        total_tokens: Most sampled tokens of a play.
        context_tokens: Most tokens of a prompt and its reply; absent: the model's own limit.
        max_turns: Most actions of a play.
        thinking: As for the designer.
        example: Prompts that show one example, for small models.
        prompts: As for the designer.
        wrap_every_turn, box_raw_replies, reward: As in ``PlayerSettings``.
        stop: Texts after which a reply ends.
        std: Whether advantages are divided by the group's standard deviation (method, section 6).
    """

    temperature: float = 0.6
    top_p: float = 0.95
    top_k: int = 20
    turn_tokens: int = 8192
    total_tokens: int = 32_768
    context_tokens: int | None = None
    max_turns: int = 25
    thinking: bool | None = None
    example: bool = False
    prompts: str = ""
    wrap_every_turn: bool = False
    box_raw_replies: bool = False
    reward: ReturnRule = "manifest"
    stop: tuple[str, ...] = ()
    std: bool = True

    def __post_init__(self) -> None:
        """Refuse what the player would refuse later."""
        self.player()

    def player(self) -> PlayerSettings:
        """The settings of the player."""
        return PlayerSettings(
            sampling=Sampling(self.turn_tokens, self.temperature, self.top_p, self.top_k, self.stop),
            max_turns=self.max_turns,
            total_tokens=self.total_tokens,
            context_tokens=self.context_tokens,
            thinking=self.thinking,
            example=self.example,
            prompts=prompt_folder(self.prompts, "player"),
            wrap_every_turn=self.wrap_every_turn,
            box_raw_replies=self.box_raw_replies,
            reward=self.reward,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSettings:
    """What a program is worth to its designer (method, section 5).

    Attributes:
        scorer: Name of a scorer; ``solve-rate`` and ``learning-potential`` are ablations.
        options: Its options; those of ``spade`` are the plateau, the weights and the pairing.
        shrink: Shrink regrets towards what the whole pool tells (scorer ``spade`` only; our departure).
        max_scale: Bound of the designer's scale.
    """

    scorer: str = "spade"
    options: dict[str, Any] = field(default_factory=dict)
    shrink: bool = False
    max_scale: float = 50.0

    def __post_init__(self) -> None:
        """Refuse scorers that do not exist, and a shrinkage of what is no regret."""
        known = [*BUILT_IN, *sorted({item.name for item in plugins.available("scorers")} - set(BUILT_IN))]
        if self.scorer not in known:
            near = difflib.get_close_matches(self.scorer, known, n=1)
            raise ValueError(
                f"scorer must be one of {', '.join(known)}, got {self.scorer!r}"
                + (f"; did you mean {near[0]!r}?" if near else "")
            )
        if self.shrink and self.scorer != "spade":
            raise ValueError(f"shrink is for the scorer 'spade' only, got {self.scorer!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The environment memory.

    Attributes:
        use: Off in the ablation without one.
        capacity: Records.
        eviction: Who leaves.
    """

    use: bool = True
    capacity: int = 200
    eviction: Eviction = "oldest"

    def __post_init__(self) -> None:
        """Refuse a memory that holds nothing."""
        _at_least(self, 1, "capacity")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSettings:
    """Who changes the weights.

    Attributes:
        name: An entry point of ``spade_gym.trainers``; ``null`` changes nothing.
        save_every: Rollouts between checkpoints; one is always written at the end.
        options: What the trainer itself is told.
    """

    name: str = "null"
    save_every: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a run without checkpoints."""
        _at_least(self, 1, "save_every")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A whole run.

    Attributes:
        title: One line.
        notes: What departs from the paper, and why.
        cycle, models, designer, hints, agent, reward, memory, trainer: See their classes.
    """

    title: str = ""
    notes: tuple[str, ...] = ()
    cycle: CycleSettings = field(default_factory=CycleSettings)
    models: Models = field(default_factory=Models)
    designer: DesignerSettings = field(default_factory=DesignerSettings)
    hints: HintSettings = field(default_factory=HintSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)

    def __post_init__(self) -> None:
        """Refuse what its requests would refuse later."""
        self.requests()

    def requests(self) -> RequestSettings:
        """What all requests of the run have in common."""
        cycle, designer = self.cycle, self.designer
        return RequestSettings(
            setting=cycle.setting,
            seed=cycle.seed,
            num_environments=cycle.fixed_programs if cycle.pool == "fixed" else cycle.environments,
            skills=cycle.skills,
            skills_per_regeneration=cycle.skills_per_regeneration,
            difficulties=designer.difficulties,
            min_instructions=designer.min_instructions,
            max_instructions=designer.max_instructions,
            max_words=designer.max_words,
        )

    def to_json(self) -> dict[str, Any]:
        """The recipe as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))  # type: ignore[no-any-return]

    @property
    def digest(self) -> str:
        """sha256 of what it says, title and notes aside."""
        told = {key: value for key, value in self.to_json().items() if key not in ("title", "notes")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def changed(recipe: Recipe, table: str, **values: Any) -> Recipe:
    """Return a recipe with some settings of one table changed."""
    return dataclasses.replace(recipe, **{table: dataclasses.replace(getattr(recipe, table), **values)})


def differences(one: Recipe, other: Recipe) -> Mapping[str, tuple[Any, Any]]:
    """Return the settings in which two recipes differ, as ``table.key``: (one's value, the other's)."""
    left, right = one.to_json(), other.to_json()
    found: dict[str, tuple[Any, Any]] = {}
    for name in sorted(set(left) - {"title", "notes"}):
        for key in sorted(left[name]):
            if left[name][key] != right[name][key]:
                found[f"{name}.{key}"] = (left[name][key], right[name][key])
    return found
