"""What a suite is: tasks, and somebody who has a model work on them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from spade_gym.errors import SpadeError
from spade_gym.models.base import LanguageModel
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import Counts


class SuiteError(SpadeError):
    """A suite that is unknown, cannot be read, or needs something that is not installed."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to be done.

    Attributes:
        name: Unique in its suite.
        group: Under which it is reported: a program, a data set, a category.
        cluster: Tasks with the same one are resampled together.
    """

    name: str
    group: str
    cluster: str


class Order(NamedTuple):
    """A task to be done once.

    Attributes:
        key: Of the requests to the model; unique.
        task: Number of the task in its suite.
        sample: Number of the repetition.
        seed: Seeds the model's draws, in 31 bits.
    """

    key: str
    task: int
    sample: int
    seed: int


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an order.

    Attributes:
        task: The order's.
        sample: The order's.
        score: In [0, 1] (a program's return: [-1, 1]); ``None`` when it was ``faulty`` or ``aborted``.
        right: Whether it was solved; False without a score.
        ended: ``answered``, ``unanswered`` (the reply holds no answer), ``cut`` (it reached its limit of tokens) or
            ``context`` (no room for one); of plays as in ``Play.ended``; ``faulty`` (the grader or the program failed)
            or ``aborted`` (the model failed).
        note: What failed or why the answer is wrong, or "".
        answer: What was graded; "" where none was found, and for plays.
        said: Everything that the model wrote, reply by reply.
        prompt_tokens: Tokens read.
        completion_tokens: Tokens sampled.
    """

    task: int
    sample: int
    score: float | None
    right: bool
    ended: str
    note: str = ""
    answer: str = ""
    said: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under what all orders of an evaluation are done.

    Attributes:
        player: How the model samples and plays. Of questions, its sampling, ``thinking``, ``context_tokens`` and
            ``prompts`` count.
        isolation: Of programs and graders; "" for the default.
        max_in_flight: Most orders under way.
        progress: Told how far it is.
    """

    player: PlayerSettings
    isolation: str = ""
    max_in_flight: int = 256
    progress: Callable[[Counts], None] | None = None


class Suite(Protocol):
    """Tasks.

    Attributes:
        name: For reports.
        clusters: What a cluster is, in the plural.
        tasks: In a fixed order.
    """

    name: str
    clusters: str
    tasks: Sequence[Task]

    def describe(self) -> dict[str, Any]:
        """JSON values that say exactly what the suite is: equal ones, equal tasks."""

    def prompts(self, player: PlayerSettings) -> dict[str, str]:
        """Digests of the prompts that its tasks are asked with, by name.

        Raises:
            SpadeError: One cannot be read.
        """

    def work(self, orders: Sequence[Order], model: LanguageModel, conditions: Conditions) -> Generator[Result]:
        """Have a model work on orders and yield results as they come; close the iterator to stop it.

        Raises:
            SandboxError: The sandbox is broken.
            ModelError: The model refuses a request.
        """
