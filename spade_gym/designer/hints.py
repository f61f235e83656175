"""A hint for each accepted program: privileged advice by a model that sees the source, which the player never does.

The call is separate from the one that wrote the program and comes after its acceptance. A hint that is empty, cut
off, too long or gives answers or values away is asked for again, with the reason. After the last try there is no
hint, and the reason is kept: a missing hint is never an empty one.
Source: method, section 5; issue 4, point 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from spade_gym.designer.ask import Answer, Question, ask_all
from spade_gym.designer.hint_checks import answer_leak, source_leak, value_leak
from spade_gym.designer.instances import InstanceView, view_instances
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.quoting import code_block, framed, hidden_character, without_control_tokens
from spade_gym.designer.request import check_outage
from spade_gym.errors import ProgramFault
from spade_gym.models.base import Completion, LanguageModel, Message, Sampling
from spade_gym.programs.boxed import without_thoughts
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import Isolation

#: Method, section 5 and 7: temperature and tokens of a hint.
HINT_SAMPLING = Sampling(max_tokens=4_096, temperature=0.3)
NUM_TRIES = 4
#: Instances whose answers and values a hint is compared with.
SEEDS = tuple(range(8))
MAX_CHARS = 2_000
_LABEL = re.compile(r"^\W*hints?\W*:\W*", re.IGNORECASE)
_LABEL_LINE = re.compile(r"^[^\w\n]*hints?[^\w\n]*:", re.IGNORECASE | re.MULTILINE)
_FENCE_LINE = re.compile(r"^[^\S\n]*`{3,}.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HintTry:
    """One answer of the hint writer.

    Attributes:
        answer: What the model wrote.
        refusal: Why it is no hint; "" for the one that was taken.
    """

    answer: Answer
    refusal: str


@dataclass(frozen=True, slots=True)
class Hint:
    """What came of asking for a program's hint.

    Attributes:
        digest: The program's.
        text: The hint; ``None`` where there is none.
        reason: Why there is none; "" otherwise.
        note: What could not be checked; "" for nothing.
        tries: Every answer, in order.
        outage: There is none because the model failed at the last try: the program may be asked about again.
    """

    digest: str
    text: str | None
    reason: str
    note: str = ""
    tries: tuple[HintTry, ...] = ()
    outage: bool = False

    @property
    def completions(self) -> tuple[Completion, ...]:
        """The model's completions, for counting tokens."""
        return tuple(item.answer.completion for item in self.tries if item.answer.completion is not None)


@dataclass(slots=True)
class _Open:
    """A program whose hint is not there yet."""

    program: Program
    views: list[InstanceView]
    messages: tuple[Message, ...]
    note: str
    tries: list[HintTry] = field(default_factory=list)


class HintWriter:
    """Asks a language model for hints.

    Args:
        model: The engine; it is not closed here.
        sampling: How to draw.
        thinking: Whether the model may think first; ``None`` leaves it to its template.
        num_tries: How often a program's hint is asked for.
        seeds: Instances that hints are compared with; the first one is shown to the writer.
        max_chars: Longest hint.
        seed: Seeds the answers, together with the program's digest.
        prompts: The templates; the shipped ones by default.
        isolation: Of the worker in which instances are looked at.

    Raises:
        ValueError: A number is out of range, or there are no seeds.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling = HINT_SAMPLING,
        *,
        thinking: bool | None = None,
        num_tries: int = NUM_TRIES,
        seeds: Sequence[int] = SEEDS,
        max_chars: int = MAX_CHARS,
        seed: int = 0,
        prompts: Prompts | None = None,
        isolation: Isolation | str | None = None,
    ) -> None:
        if num_tries < 1 or max_chars < 1:
            raise ValueError(f"num_tries and max_chars must be at least 1, got {num_tries} and {max_chars}")
        if not seeds:
            raise ValueError("hints are compared with instances of at least one seed, got none")
        self._model = model
        self._sampling = sampling
        self._thinking = thinking
        self._num_tries = num_tries
        self._seeds = tuple(seeds)
        self._max_chars = max_chars
        self._seed = seed
        self._prompts = prompts or Prompts()
        self._isolation = isolation

    def write(self, programs: Sequence[Program]) -> list[Hint]:
        """Return what came of each program, in order; equal programs are asked about once.

        All programs that have no hint yet are asked about together, try by try.

        Raises:
            DesignerOutage: The model failed at the last try of more than half of the programs it was asked about.
            ModelError: The engine lost a request.
            SandboxError: The sandbox cannot do its work.
        """
        found: dict[str, Hint] = {}
        waiting: dict[str, _Open] = {}
        for digest, program in {program.digest: program for program in programs}.items():
            try:
                waiting[digest] = self._open(program)
            except ProgramFault as fault:
                found[digest] = Hint(digest, None, f"the program fails when it is looked at: {fault}")
        num_asked = len(waiting)
        for number in range(self._num_tries):
            for hint in self._try(waiting, number):
                found[hint.digest] = hint
                del waiting[hint.digest]
        for digest, item in waiting.items():
            reasons = "; ".join(dict.fromkeys(attempt.refusal for attempt in item.tries))
            reason = f"none of {len(item.tries)} tries gave a hint: {reasons}"
            outage = item.tries[-1].answer.outage
            found[digest] = Hint(digest, None, reason, item.note, tuple(item.tries), outage=outage)
        failures = [item.tries[-1].refusal for item in waiting.values() if item.tries[-1].answer.outage]
        check_outage(failures, num_asked, "hints")
        return [found[program.digest] for program in programs]

    def _open(self, program: Program) -> _Open:
        tool_use = program.setting == "tool_use"
        views = view_instances(program, self._seeds, isolation=self._isolation, play=tool_use)
        prompt = self._prompts["hint_tool" if tool_use else "hint_game"].fill(
            source=code_block(program.source), observation=framed(views[0].shown(), label="episode")
        )
        note = (
            ""
            if any(view.solution for view in views)
            else ("the program has no solution(), so its answers were not compared with the hint")
        )
        return _Open(program, views, (Message("user", prompt),), note)

    def _try(self, waiting: dict[str, _Open], number: int) -> list[Hint]:
        """Ask once for every hint that is missing; return those that are found."""
        questions = [
            Question(f"hint/{digest[:16]}/{number}", item.messages, _seed(self._seed, digest, number))
            for digest, item in waiting.items()
        ]
        answers = ask_all(self._model, questions, self._sampling, thinking=self._thinking)
        found = []
        for (digest, item), answer in zip(waiting.items(), answers, strict=True):
            text = read_hint(answer.text)
            refusal = answer.error or self._refusal(text, item)
            item.tries.append(HintTry(answer, refusal))
            if not refusal:
                found.append(Hint(digest, text, "", item.note, tuple(item.tries)))
            elif not answer.error:
                complaint = f"That hint is refused: {refusal}. Write another one; reply with the hint alone."
                item.messages = (item.messages[0], Message("assistant", answer.text), Message("user", complaint))
        return found

    def _refusal(self, text: str, item: _Open) -> str:
        """Why a text is no hint for a program; "" if it is one."""
        if not text:
            return "it is empty"
        if len(text) > self._max_chars:
            return f"it has {len(text)} characters where at most {self._max_chars} are allowed"
        if unsafe := _unsafe(text):
            return unsafe
        source = item.program.source
        if quoted := source_leak(text, source):
            return quoted
        if item.program.setting == "tool_use":
            return value_leak(text, item.views, source=source)
        return answer_leak(text, item.views)


def _unsafe(text: str) -> str:
    """Why a text does not belong into a prompt or onto a screen as a hint; "" where it does."""
    if hidden := hidden_character(text):
        return f"it holds the control character {hidden!a}"
    if without_control_tokens(text) != text:
        return "it holds a control token of a chat template"
    return "it holds a further line 'HINT:'" if _LABEL_LINE.search(text) else ""


def read_hint(text: str) -> str:
    """Return the hint in a model's answer: without thoughts, fence lines, a label ``Hint:`` and quotes around it."""
    said = _FENCE_LINE.sub("", without_thoughts(text).replace("\r\n", "\n")).strip()
    said = _LABEL.sub("", said).strip()
    if len(said) > 1 and said[0] == said[-1] == '"' and '"' not in said[1:-1]:
        said = said[1:-1].strip()
    return said


def _seed(seed: int, digest: str, number: int) -> int:
    return (seed * 1_000_003 + int(digest[:12], 16) + number) % (1 << 31)
