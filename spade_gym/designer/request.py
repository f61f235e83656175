"""What a designer is asked for, and what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from spade_gym.errors import SpadeError
from spade_gym.models.base import Completion, Message
from spade_gym.programs.program import Program
from spade_gym.types import Setting

Difficulty = Literal["easy", "medium", "hard"]


class DesignerError(SpadeError):
    """A designer that is unknown, lacks what it needs, or has nothing to draw from."""


class DesignerOutage(DesignerError):
    """The model behind a designer, hint writer or screen failed most of the time: nothing may be concluded from it.

    What it did answer is kept where there is a journal; the same call goes on from there once the model is back.
    """


def check_outage(failures: Sequence[str], num_asked: int, what: str) -> None:
    """Refuse to go on when more than half of what was asked of a model failed for reasons of its own.

    Args:
        failures: Why, one reason for each failure.
        num_asked: How many were asked.
        what: What was asked for, in the plural, for the message.

    Raises:
        DesignerOutage: More than half failed.
    """
    if 2 * len(failures) > num_asked:
        raise DesignerOutage(
            f"{len(failures)} of {num_asked} {what} failed because the model did, more than half; the last reason: "
            f"{failures[-1]}. Mend the model or its server and resume"
        )


@dataclass(frozen=True, slots=True)
class Document:
    """A text of the corpus that a program is to be grounded in.

    Attributes:
        id: Its name in the corpus.
        text: Cut to what a request may hold.
        title: Or "".
    """

    id: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A program out of the environment memory.

    Attributes:
        source: Its code.
        win_rate: Share of its plays won without the hint, in [0, 1].
        regret: Hint regret in [-1, 1]; ``None`` where unknown.
    """

    source: str
    win_rate: float
    regret: float | None


@dataclass(frozen=True, slots=True)
class Repair:
    """An earlier reply to the same request that was rejected, to be mended.

    Attributes:
        reply: Its text.
        reasons: Why it was rejected, one line each.
    """

    reply: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DesignRequest:
    """One program that is asked for (method, section 2).

    Attributes:
        key: Names the request in a run: ``design/<epoch>/<index>/<attempt>``.
        setting: ``single_turn``, ``multi_turn`` or ``tool_use``.
        skill: One of the skills of the setting.
        difficulty: ``easy``, ``medium`` or ``hard``.
        seed: Seeds whatever the designer draws.
        document: What to ground it in; ``None`` in the ablation without a corpus.
        positives: Up to two programs of the skill of high regret.
        negative: One that was too easy (win rate above 0.9) or too hard (below 0.1).
        domain: Of a tool-use request, or "".
        variant: ``execute``, ``read_then_write``, ``missing_value`` or ``irrelevant_request`` of a tool-use
            request, or "".
        num_instructions: Instructions of a tool-use program, 1 or more; 0 for games.
        repair: The rejected reply that is to be mended; ``None`` for a fresh one.
    """

    key: str
    setting: Setting
    skill: str
    difficulty: Difficulty
    seed: int
    document: Document | None = None
    positives: tuple[Example, ...] = ()
    negative: Example | None = None
    domain: str = ""
    variant: str = ""
    num_instructions: int = 0
    repair: Repair | None = None


@dataclass(frozen=True, slots=True)
class DesignReply:
    """What a designer wrote.

    Attributes:
        request: What it was asked.
        text: The raw reply; "" when there is none.
        error: Why there is no usable text (a failed or truncated completion); "" otherwise.
        messages: The prompt, for designers that are language models.
        prompt_ids: The prompt's token ids, where known.
        completion: With ids and log-probabilities, for training; ``None`` where no model sampled it.
        origin: Where it comes from (designer, document, licence …): text values, kept in the manifest. ``document``
            names the text that it is grounded in. ``setting``, ``skill`` and ``difficulty`` stand here when they
            are others than the request's, as with replies that were recorded for another request.
        program: The program itself, from designers that draw or change existing ones; ``None`` where it must be
            read from the text.
        hint: Privileged advice that comes with the program, for one that brings none of its own; "" where there is
            none.
        outage: The model failed or could not be reached: no fault of the designer, and the request may be made again.
            Such a reply has an ``error`` and is never kept.
    """

    request: DesignRequest
    text: str
    error: str = ""
    messages: tuple[Message, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    completion: Completion | None = None
    origin: tuple[tuple[str, str], ...] = ()
    program: Program | None = None
    hint: str = ""
    outage: bool = False


class Designer(Protocol):
    """Writes programs.

    Attributes:
        name: For reports and manifests.
    """

    name: str

    def write(self, requests: Sequence[DesignRequest]) -> list[DesignReply]:
        """Answer every request, in order; a failure is a reply with an ``error``, never a missing one."""
