"""A window: the rollouts between two regenerations, and what their plays say about the programs and their designer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spade_gym.curriculum.designer_reward import designer_scale
from spade_gym.curriculum.memory import Scorer
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.regret_scorers import fit_regret_pool, hint_regret
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.scorers import bound, find
from spade_gym.curriculum.win_rates import WinRate, win_rate
from spade_gym.rollout.pairs import paired_out
from spade_gym.rollout.play import Play
from spade_gym.selfplay.environment import Environment, environment_of
from spade_gym.selfplay.recipe import RewardSettings
from spade_gym.selfplay.settings_table import RecipeError

#: Share of plays that do not count beyond which nothing is concluded: by failing, a program could choose which of its
#: plays are counted.
MAX_DROPPED_SHARE = 0.25


class Worth(NamedTuple):
    """What a window says about one environment.

    Attributes:
        environment: The environment.
        outcomes: Its valid plays, in the order of the rollouts; hinted ones first.
        num_dropped: Plays that do not count: faulty ones, and at the regeneration their counterparts.
        wins: Share won and mean return without the hint, and a partial return that more than half of the plays got;
            ``None`` without such plays.
        regret: Signed hint regret; unknown where an arm is missing.
        reward: The designer's raw reward.
    """

    environment: Environment
    outcomes: Outcomes
    num_dropped: int
    wins: WinRate | None
    regret: Score | Unknown
    reward: Score | Unknown


@dataclass(slots=True)
class Window:
    """Collects the plays of a window.

    Attributes:
        epoch: Number of the window.
        rollout: Number of its first rollout, the regeneration.
        environments: Whose plays are collected.
    """

    epoch: int
    rollout: int
    environments: Sequence[Environment]
    _plays: dict[int, list[tuple[int, Play]]] = field(default_factory=dict)

    def add(self, rollout: int, plays: Sequence[Play]) -> None:
        """Take in the plays of a rollout, of either arm; transcripts and token ids are not kept in memory."""
        for play in plays:
            brief = replace(play, turns=(), samples=())
            self._plays.setdefault(environment_of(play.key), []).append((rollout, brief))

    def worths(self, settings: RewardSettings) -> list[Worth]:
        """What the plays say about each environment, in order."""
        counted = [self._counted(environment) for environment in self.environments]
        pairing = str(settings.options.get("pairing", "plain"))
        options = dict(settings.options)
        if settings.shrink:
            options["pool"] = _pool_of([outcomes for outcomes, _ in counted], pairing)
        scorer = bound(find(settings.scorer), options, name=settings.scorer)
        return [
            _worth(environment, outcomes, dropped, _reward(scorer, outcomes, dropped), pairing, options.get("pool"))
            for environment, (outcomes, dropped) in zip(self.environments, counted, strict=True)
        ]

    def _counted(self, environment: Environment) -> tuple[Outcomes, int]:
        """The plays that count, by column: faults are out of both arms alike where there are two."""
        mine = self._plays.get(environment.index, [])
        first = paired_out(play for rollout, play in mine if rollout == self.rollout)
        later = [(rollout, play) for rollout, play in mine if rollout != self.rollout]
        kept = [(self.rollout, play) for play in sorted(first.kept, key=lambda play: play.arm == "plain")]
        kept += [(rollout, play) for rollout, play in later if play.status == "ok"]
        outcomes = Outcomes.of(
            [play.total for _, play in kept],
            wins=[play.won for _, play in kept],
            hinted=[play.arm == "hint" for _, play in kept],
            seeds=[play.seed for _, play in kept],
            windows=[rollout for rollout, _ in kept],
            lengths=[play.length for _, play in kept],
            policy_versions=[play.policy_version for _, play in kept],
        )
        return outcomes, len(mine) - len(kept)


def _reward(scorer: Scorer, outcomes: Outcomes, dropped: int) -> Score | Unknown:
    share = dropped / max(1, dropped + len(outcomes))
    if share > MAX_DROPPED_SHARE:
        return Unknown(f"{share:.0%} of its plays do not count, more than {MAX_DROPPED_SHARE:.0%}", len(outcomes))
    return scorer(outcomes)


def check_reward(settings: RewardSettings) -> None:
    """Try the scorer before anything is spent.

    Raises:
        RecipeError: It has no such option, or an option is out of range.
    """
    sample = Outcomes.of([0.0, 1.0, 1.0, 0.0], hinted=[True, True, False, False], seeds=[0, 1, 0, 1])
    try:
        bound(find(settings.scorer), settings.options, name=settings.scorer)(sample)
        designer_scale(1, 1, 1, max_scale=settings.max_scale)
    except (TypeError, ValueError) as error:
        raise RecipeError(f"[reward]: {error}") from error


def _pool_of(all_outcomes: Sequence[Outcomes], pairing: str) -> object:
    pool = fit_regret_pool(all_outcomes, pairing=pairing)  # type: ignore[arg-type]
    return None if isinstance(pool, Unknown) else pool


def _worth(
    environment: Environment, outcomes: Outcomes, dropped: int, reward: Score | Unknown, pairing: str, pool: object
) -> Worth:
    wins = win_rate(outcomes)
    return Worth(
        environment,
        outcomes,
        dropped,
        wins if isinstance(wins, WinRate) else None,
        hint_regret(outcomes, pairing=pairing, pool=pool),  # type: ignore[arg-type]
        reward,
    )
