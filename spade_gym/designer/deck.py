"""Which of many existing things answers a request: one used least so far, and of those one that fits best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from spade_gym.designer.request import DesignRequest
from spade_gym.types import Setting


@dataclass(frozen=True, slots=True)
class Label:
    """What is known about one card of a deck.

    Attributes:
        name: Unique in the deck.
        setting: ``None`` where unknown: then it fits any.
        skill: "" where unknown: then it fits any.
    """

    name: str
    setting: Setting | None
    skill: str


def request_rng(request: DesignRequest) -> np.random.Generator:
    """Return the chance that belongs to a request: its seed decides, and nothing else."""
    return np.random.default_rng(request.seed % (1 << 64))


class Deck:
    """Draws without replacement: no card comes twice before every other one that a request may get came once.

    A request for a game never gets a tool-use card, nor the reverse. Among the cards used least, the best fit wins:
    setting and skill, then the skill in the other kind of game, then the setting alone, then any; the request's seed
    decides among equals.

    Args:
        labels: The cards; their order does not matter.
        fit_first: Whether a better fit wins over a card that was used less, for cards that may well come again.
    """

    def __init__(self, labels: Iterable[Label], *, fit_first: bool = False) -> None:
        self._fit_first = fit_first
        self._labels = sorted(labels, key=lambda label: label.name)
        self._uses = {label.name: 0 for label in self._labels}

    def draw(self, request: DesignRequest) -> str | None:
        """Return the name of a card and count it as used; ``None`` when none is of the request's kind."""
        names = self.order(request)
        if not names:
            return None
        self.use(names[0])
        return names[0]

    def order(self, request: DesignRequest) -> list[str]:
        """Return the names of the cards that a request may get, the next one first; nothing is counted."""
        fitting = [label for label in self._labels if _same_kind(label.setting, request.setting)]
        shuffled = [fitting[int(place)] for place in request_rng(request).permutation(len(fitting))]

        def rank(label: Label) -> tuple[int, int]:
            uses, distance = self._uses[label.name], _distance(label, request)
            return (distance, uses) if self._fit_first else (uses, distance)

        return [label.name for label in sorted(shuffled, key=rank)]

    def use(self, name: str) -> None:
        """Count a card as used, for instance by an earlier part of the run; names that are no cards do not matter."""
        if name in self._uses:
            self._uses[name] += 1


def _same_kind(setting: Setting | None, wanted: Setting) -> bool:
    return setting is None or (setting == "tool_use") == (wanted == "tool_use")


def _distance(label: Label, request: DesignRequest) -> int:
    wrong_skill = label.skill not in ("", request.skill)
    wrong_setting = label.setting not in (None, request.setting)
    return 2 * wrong_skill + wrong_setting
