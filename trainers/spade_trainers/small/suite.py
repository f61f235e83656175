"""The fixed suite on which the small model is measured: programs that no designer wrote and no run ever plays.

Three tiers by the length of their lists: *easy* (2, 3), *medium* (4 to 6; nobody played lists of 6 in the warm start),
and *beyond* (7, 8), of which the warm start holds nothing. Instances and draws are fixed, so two models are compared on
the same plays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spade_gym.models.base import LanguageModel
from spade_gym.programs.reply import program_from_source
from spade_gym.rollout.play import PlayOrder
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import play_all
from spade_trainers.small.families import FAMILIES, THINGS
from spade_trainers.small.lessons import SKILL_FAMILIES

#: Lengths of each tier.
TIERS = {"easy": (2, 3), "medium": (4, 5, 6), "beyond": (7, 8)}
#: Seeds of instances begin here; those of runs are drawn, and what is drawn here is drawn with another generator.
_FIRST_SEED = 4_000_000_000
_SEED = 20_261_130


@dataclass(frozen=True, slots=True)
class Tier:
    """How a model did on a tier.

    Attributes:
        wins: Plays won.
        plays: Valid plays.
    """

    wins: int
    plays: int

    @property
    def rate(self) -> float:
        """Share won."""
        return self.wins / self.plays


def suite_orders(skills: Sequence[str], *, programs: int, instances: int) -> list[PlayOrder]:
    """Return the plays of the suite.

    Args:
        skills: Whose families it holds.
        programs: Programs of each family and length.
        instances: Instances of each program.
    """
    rng = np.random.default_rng(_SEED)
    orders = []
    for family in (name for skill in skills for name in SKILL_FAMILIES[skill]):
        for tier, lengths in TIERS.items():
            for length in lengths:
                for number in range(programs):
                    made = FAMILIES[family](rng, str(rng.choice(THINGS)), length)
                    program = program_from_source(made.source, name=f"{family}{length}", setting="multi_turn")
                    orders += [
                        PlayOrder(
                            f"suite/{family}/{tier}/{length}/{number}/{instance}",
                            program,
                            _FIRST_SEED + instance,
                            "plain",
                            _SEED + instance,
                        )
                        for instance in range(instances)
                    ]
    return orders


def measure(model: LanguageModel, orders: Sequence[PlayOrder], settings: PlayerSettings) -> dict[str, Tier]:
    """Play the suite; by tier, and by ``family/length``.

    Args:
        model: Who plays.
        orders: From ``suite_orders``.
        settings: How to play.
    """
    plays = play_all(orders, model, settings=settings)
    found: dict[str, Tier] = {}
    for play in plays:
        _, family, tier, length, _, _ = play.key.split("/")
        if play.status != "ok":
            continue
        for name in (tier, f"{family}/{length}"):
            before = found.get(name, Tier(0, 0))
            found[name] = Tier(before.wins + play.won, before.plays + 1)
    return found
