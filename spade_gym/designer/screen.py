"""Can the instructions of a tool-use program be fulfilled at all? A language model's verdict, which fails closed.

The screen rejects what is impossible (unreachable, already fulfilled, or not derivable) and keeps what is hard. A
program is accepted only by an explicit verdict to keep it: a text without one, with several, cut off, an error or a
timeout is *not screened*, and not screened is not accepted. Source: method, section 4, point 4.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spade_gym.designer.ask import Answer, Question, ask_all
from spade_gym.designer.instances import InstanceView, view_instance
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.quoting import code_block, framed
from spade_gym.errors import ProgramFault
from spade_gym.models.base import Completion, LanguageModel, Message, Sampling
from spade_gym.programs.boxed import without_thoughts
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Isolation

Status = Literal["keep", "reject", "not_screened"]

#: A low temperature: this is a judgement, not an invention.
SCREEN_SAMPLING = Sampling(max_tokens=4_096, temperature=0.3)
NUM_TRIES = 2
_VERDICT = re.compile(r"VERDICT: (KEEP|REJECT (unreachable|pre-satisfied|underivable))")
_MENTION = re.compile(r"^[^\w\n]*VERDICT\b", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Screening:
    """What the screen says of a program.

    Attributes:
        digest: The program's.
        status: ``keep``, ``reject`` or ``not_screened``.
        reason: ``unreachable``, ``pre-satisfied`` or ``underivable`` of a rejection; why there is no verdict of a
            program that was not screened; "" otherwise.
        answers: What the model wrote, one for each try.
    """

    digest: str
    status: Status
    reason: str
    answers: tuple[Answer, ...] = ()

    @property
    def accepted(self) -> bool:
        """Only an explicit verdict to keep it accepts a program."""
        return self.status == "keep"

    @property
    def outage(self) -> bool:
        """Whether there is no verdict because the model failed when it was asked last."""
        return self.status == "not_screened" and bool(self.answers) and self.answers[-1].outage

    @property
    def completions(self) -> tuple[Completion, ...]:
        """The model's completions, for counting tokens."""
        return tuple(answer.completion for answer in self.answers if answer.completion is not None)


class Screen:
    """Asks a language model about tool-use programs.

    Args:
        model: The engine; it is not closed here.
        sampling: How to draw.
        thinking: Whether the model may think first; ``None`` leaves it to its template.
        num_tries: How often a program without a verdict is asked about.
        seed: Seeds the answers, together with the program's digest.
        prompts: The templates; the shipped ones by default.
        isolation: Of the worker in which an instance is looked at.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling = SCREEN_SAMPLING,
        *,
        thinking: bool | None = None,
        num_tries: int = NUM_TRIES,
        seed: int = 0,
        prompts: Prompts | None = None,
        isolation: Isolation | str | None = None,
    ) -> None:
        if num_tries < 1:
            raise ValueError(f"num_tries must be at least 1, got {num_tries}")
        self._model = model
        self._sampling = sampling
        self._thinking = thinking
        self._num_tries = num_tries
        self._seed = seed
        self._prompts = prompts or Prompts()
        self._isolation = isolation

    def examine(self, programs: Sequence[Program]) -> list[Screening]:
        """Screen programs that passed all other checks, in order; equal programs are asked about once.

        Raises:
            ValueError: One is no tool-use program.
            ModelError: The engine lost a request.
            SandboxError: The sandbox cannot do its work.
        """
        for program in programs:
            if program.setting != "tool_use":
                raise ValueError(f"only tool-use programs are screened; {program.name} is {program.setting}")
        unique = {program.digest: program for program in programs}
        found: dict[str, Screening] = {}
        messages: dict[str, Message] = {}
        for digest, program in unique.items():
            try:
                view = view_instance(program, 0, isolation=self._isolation)
            except ProgramFault as fault:
                found[digest] = Screening(digest, "not_screened", f"the program fails: {fault}")
            else:
                messages[digest] = self._message(program, view)
                found[digest] = Screening(digest, "not_screened", "not asked")
        for number in range(self._num_tries):
            self._ask(
                found, {key: text for key, text in messages.items() if found[key].status == "not_screened"}, number
            )
        return [found[program.digest] for program in programs]

    def _ask(self, found: dict[str, Screening], messages: dict[str, Message], number: int) -> None:
        """Ask once about each program that has no verdict yet."""
        questions = [
            Question(f"screen/{digest[:16]}/{number}", (message,), _seed(self._seed, digest, number))
            for digest, message in messages.items()
        ]
        answers = ask_all(self._model, questions, self._sampling, thinking=self._thinking)
        for digest, answer in zip(messages, answers, strict=True):
            status, reason = read_verdict(answer)
            found[digest] = Screening(digest, status, reason, (*found[digest].answers, answer))

    def _message(self, program: Program, view: InstanceView) -> Message:
        text = self._prompts["screen_tool"].fill(
            source=code_block(without_comments(program.source)),
            observation=framed(view.shown(), label="episode"),
        )
        return Message("user", text)


def read_verdict(answer: Answer) -> tuple[Status, str]:
    """Return the status and its reason; strict: one verdict, alone on the last line, outside think blocks."""
    if answer.error:
        return "not_screened", answer.error
    said = without_thoughts(answer.text).strip()
    if not said:
        return "not_screened", "the model only thought and said nothing"
    last = said.rpartition("\n")[2]
    verdict = _VERDICT.fullmatch(last.strip())
    if verdict is None:
        return "not_screened", f"the last line is no verdict: {last[:80]!r}"
    num_verdicts = len(_MENTION.findall(said))
    if num_verdicts != 1:
        return "not_screened", f"there are {num_verdicts} verdicts where one is needed"
    return ("keep", "") if verdict[2] is None else ("reject", verdict[2])


def without_comments(source: str) -> str:
    """Return a program without comments and docstrings, which do nothing and could plead with its judge.

    Raises:
        SyntaxError: The source does not parse.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = [item for item in node.body if not _is_idle_text(item)]
            node.body = body or [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_idle_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _seed(seed: int, digest: str, number: int) -> int:
    return (seed * 1_000_003 + int(digest[:12], 16) + number) % (1 << 31)
