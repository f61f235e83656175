"""A question with one reply: what is asked, and what tells a right answer from a wrong one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from spade_gym.evaluation.suite import Task
from spade_gym.models.base import Message
from spade_gym.programs.program import Program

Kind = Literal["math", "choice", "exact", "code", "reasoning_gym", "tools"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Case:
    """What a program must write to its standard output for what it reads.

    Attributes:
        input: Text on the standard input.
        output: Text that is expected; blanks at the ends of lines and of the text do not count.
    """

    input: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question.

    Attributes:
        task: Its name and group.
        kind: How it is asked (``prompts/<kind>.md``), and how its answer is graded.
        text: What is asked.
        before: Messages before it.
        answer: The right answer of ``math`` and ``exact``; the right letter of ``choice``.
        choices: Of ``choice``, in the order in which they are shown.
        tests: Of ``code``: Python that raises when the answer is wrong.
        cases: Of ``code``: inputs and outputs, in place of ``tests``.
        seconds: Of ``code``: wall-clock time for all tests.
        grader: Of ``reasoning_gym``: the program that asks it and grades its answer.
        instance: Its instance of ``grader``.
        functions: Of ``tools``: schemas in OpenAI form.
        expected: Of ``tools``: what its checker wants to know.
    """

    task: Task
    kind: Kind
    text: str
    before: tuple[Message, ...] = ()
    answer: str = ""
    choices: tuple[str, ...] = ()
    tests: str = ""
    cases: tuple[Case, ...] = ()
    seconds: float = 10.0
    grader: Program | None = None
    instance: int = 0
    functions: tuple[dict[str, Any], ...] = ()
    expected: dict[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """What is asked, with the choices and their letters."""
        lines = [f"{letter}) {choice}" for letter, choice in zip(LETTERS, self.choices, strict=False)]
        return "\n\n".join([self.text, "\n".join(lines)]) if lines else self.text


#: Letters of choices.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer is worth.

    Attributes:
        score: In [0, 1]; ``None`` when the grader failed.
        right: Whether the question is solved.
        note: Why not, or what failed in the grader; "" for a right answer.
        answer: What was graded; "" where the reply holds no answer.
    """

    score: float | None
    right: bool
    note: str = ""
    answer: str = ""


def right(answer: str) -> Grade:
    """The grade of a right answer."""
    return Grade(1.0, True, "", answer)


def wrong(note: str, answer: str = "") -> Grade:
    """The grade of a wrong answer, or of a reply without one."""
    return Grade(0.0, False, note, answer)
