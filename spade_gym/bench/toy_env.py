"""What does a curriculum make of a student that can only learn tasks next to those it knows? The toy environment.

From Portelas et al. 2019 (arXiv:1910.07224), section 5.1 and the repository that it names; written anew. The space of
tasks is the unit square, cut into 10 × 10 cells ("cubes"). The student has a competence in each cell, 0 at first. An
episode in a cell adds 1 to it, up to 100, if the cell is *unlocked*: it is the corner (0, 0), or one of the cells
before it (one less in some coordinates, the same in the others) has a competence of at least 75. The return is the
competence divided by 100. A cell above 75 is *mastered*; the measure is the share of mastered cells after 20,000
episodes.

The constants 10, 2, 75 and 100 are those of the repository, 20,000 episodes those of its experiment. What is ours:

- A task is a cell, not a point: the methods here choose among tasks, and do not model a continuous space.
- ``bernoulli`` feedback: the return is 1 with the competence's probability, else 0. That is what a win or a loss tells.
- An episode of a ticket that is not to be trained on (``Ticket.train``) teaches the student nothing, but counts as
  one of the 20,000. In the repository every episode teaches; ``always_teaches`` does that.
- A play is won at a return above 0.75 (noiseless) or of 1 (``bernoulli``).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Feedback = Literal["noiseless", "bernoulli"]

NUM_CELLS, NUM_DIMENSIONS = 10, 2
TOP_COMPETENCE, MASTERED_ABOVE = 100, 75
NUM_EPISODES = 20_000


class Result(NamedTuple):
    """How an episode went.

    Attributes:
        total: The return, in [0, 1].
        won: Whether it counts as a win.
    """

    total: float
    won: bool


class ToyEnv:
    """The student and its cells.

    Args:
        rng: Source of the feedback's chance.
        feedback: ``noiseless`` or ``bernoulli``.
        always_teaches: Learn also from episodes that are not to be trained on.
        num_cells: Cells per dimension.
        num_dimensions: Dimensions of the space.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        feedback: Feedback = "noiseless",
        always_teaches: bool = False,
        num_cells: int = NUM_CELLS,
        num_dimensions: int = NUM_DIMENSIONS,
    ) -> None:
        self.competence: npt.NDArray[np.int64] = np.zeros((num_cells,) * num_dimensions, dtype=np.int64)
        self._rng = rng
        self._noisy = feedback == "bernoulli"
        self._always_teaches = always_teaches
        self._unlocked = np.zeros(self.competence.shape, dtype=np.bool_)
        self._unlocked[(0,) * num_dimensions] = True

    def play(self, cell: tuple[int, ...], *, train: bool = True) -> Result:
        """Play an episode in a cell, and learn from it if it is unlocked and to be trained on."""
        if (train or self._always_teaches) and self._unlocked[cell] and self.competence[cell] < TOP_COMPETENCE:
            self.competence[cell] += 1
            if self.competence[cell] == MASTERED_ABOVE:
                self._unlocked[tuple(slice(place, place + 2) for place in cell)] = True
        total = float(self.competence[cell]) / TOP_COMPETENCE
        if self._noisy:
            total = float(self._rng.random() < total)
        return Result(total, total > MASTERED_ABOVE / TOP_COMPETENCE)

    @property
    def mastered(self) -> float:
        """Share of the cells that are mastered, in percent."""
        return 100.0 * float((self.competence > MASTERED_ABOVE).mean())
