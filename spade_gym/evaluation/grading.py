"""How answers are graded: harmless ones here, by comparing texts; all others in the sandbox.

Scorers and symbolic mathematics evaluate what a model wrote (several scorers of Reasoning Gym call ``eval`` on it, and
SymPy's parser does), and code is code. So these run in a jailed worker, a fresh one for each answer: no answer can
reach this process, or change how another one is graded.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from importlib import resources

import msgspec

from spade_gym.errors import ProgramFault
from spade_gym.evaluation.answers import MOST_CHARS, chosen_letter, final_answer, plain, tagged_answer, written_code
from spade_gym.evaluation.bfcl_calls import grade_calls
from spade_gym.evaluation.question import Grade, Kind, Question, right, wrong
from spade_gym.evaluation.suite import SuiteError
from spade_gym.programs.contract import required_imports
from spade_gym.programs.program import Manifest, Program
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.session import Session
from spade_gym.storable import storable
from spade_gym.types import WIN_THRESHOLD, Transition

_NO_ANSWER = "the reply holds no answer"
_MOST_NOTE = 500
#: Characters that code may write in all its cases, as JSON.
_MOST_OUTPUT = 1_000_100
#: SymPy and tables of data sets need more than a program of the designer; JSON may write a character as six.
_LIMITS = Limits(memory_bytes=2 << 30, load_seconds=60.0, step_seconds=10.0, action_chars=14 * MOST_CHARS)
#: What code may import beside the standard library, where it is installed.
_PRELOADED = frozenset({"numpy", "sympy", "mpmath"})
_outputs = msgspec.json.Decoder(list[tuple[str, str]]).decode


class Grader:
    """Grades replies to questions.

    Args:
        isolation: Level of the workers; "" for the default.
    """

    def __init__(self, isolation: str = "") -> None:
        self._isolation = Isolation.parse(isolation or None)
        self._programs: dict[str, Program] = {}

    def prepare(self, kinds: Collection[Kind]) -> None:
        """Find out, before anything is sampled, whether answers of some kinds can be graded.

        Raises:
            SandboxError: A package is missing, or the sandbox is broken.
            SuiteError: math-verify does not do what it should in the sandbox (it keeps its own failures to itself).
        """
        if "math" in kinds:
            program = self._program("math_answer", "MathAnswerEnv")
            for given, worth in (("0.5", 1.0), (r"\frac{1}{3}", 0.0)):
                played = self._play(program, 0, json.dumps([r"\frac{1}{2}", given]), _LIMITS)
                if isinstance(played, ProgramFault) or played.reward != worth:
                    raise SuiteError(
                        f"math-verify does not work in the sandbox: one half against {given} gave {played}; install it "
                        "again: pip install --force-reinstall 'math-verify[antlr4_13_2]'"
                    )

    def grade(self, question: Question, reply: str) -> Grade:
        """Grade a reply that was not cut off.

        Returns:
            Its grade; without a score where the grader itself failed, whatever made it fail.

        Raises:
            SandboxError: The sandbox is broken.
        """
        ways = {
            "math": self._grade_math, "choice": self._grade_choice, "exact": self._grade_exact,
            "code": self._grade_code, "reasoning_gym": self._grade_reasoning_gym, "tools": self._grade_tools,
        }  # fmt: skip
        try:
            return ways[question.kind](question, storable(reply))
        except ProgramFault as fault:
            return _failed(fault)

    def _grade_choice(self, question: Question, reply: str) -> Grade:
        letter = chosen_letter(reply, question.choices)
        if letter is None:
            return wrong(_NO_ANSWER)
        return right(letter) if letter == question.answer else wrong("another choice", letter)

    def _grade_exact(self, question: Question, reply: str) -> Grade:
        answer = final_answer(reply)
        if answer is None:
            return wrong(_NO_ANSWER)
        return right(answer) if plain(answer) == plain(question.answer) else wrong("another text", answer)

    def _grade_math(self, question: Question, reply: str) -> Grade:
        answer = final_answer(reply)
        if answer is None:
            return wrong(_NO_ANSWER)
        if plain(answer) == plain(question.answer):
            return right(answer)
        program = self._program("math_answer", "MathAnswerEnv")
        played = self._play(program, 0, json.dumps([question.answer, answer]), _LIMITS)
        if isinstance(played, ProgramFault):
            return _failed(played, answer)
        return right(answer) if played.reward == 1.0 else wrong("another value", answer)

    def _grade_reasoning_gym(self, question: Question, reply: str) -> Grade:
        answer = tagged_answer(reply)
        if answer is None:
            return wrong(_NO_ANSWER)
        assert question.grader is not None
        played = self._play(question.grader, question.instance, json.dumps(answer), _LIMITS, asks=question.text)
        if isinstance(played, ProgramFault):
            return _failed(played, answer)
        if not 0 <= played.reward <= 1:
            return Grade(None, False, f"the scorer gave {played.reward!r}, which is not in [0, 1]", answer)
        is_right = played.reward >= WIN_THRESHOLD
        return Grade(played.reward, is_right, "" if is_right else "the scorer gave less than 1", answer)

    def _grade_tools(self, question: Question, reply: str) -> Grade:
        return grade_calls(question, reply)

    def _grade_code(self, question: Question, reply: str) -> Grade:
        code = written_code(reply)
        if code is None:
            return wrong("the reply holds no code")
        given = {"inputs": [case.input for case in question.cases]} if question.cases else {"tests": question.tests}
        program = self._program(
            "code_answer", "CodeAnswerEnv", required_imports(code) | required_imports(question.tests)
        )
        played = self._play(program, 0, json.dumps({"code": code, **given}), _code_limits(question))
        if isinstance(played, ProgramFault):  # the code's own end: it hung, died or used too much
            return wrong(f"{played.reason}: {played}"[:_MOST_NOTE], code)
        if question.cases:
            return _compared(question, played.observation, code)
        return right(code) if played.reward == 1.0 else wrong(played.observation or "the tests failed", code)

    def _program(self, name: str, class_name: str, imports: frozenset[str] = frozenset()) -> Program:
        """A grader of ``graders/``; what an answer imports is preloaded with it."""
        needed = sorted(imports & _PRELOADED)
        key = ",".join([name, *needed])
        if key not in self._programs:
            text = resources.files("spade_gym.evaluation").joinpath("graders", f"{name}.py").read_text("utf-8")
            source = text + "".join(f"\nimport {module}" for module in needed)
            self._programs[key] = Program(
                source, Manifest(name=class_name, setting="single_turn", class_name=class_name)
            )
        return self._programs[key]

    def _play(
        self, program: Program, instance: int, action: str, limits: Limits, *, asks: str | None = None
    ) -> Transition | ProgramFault:
        """Play one action in a fresh worker and return what came of it.

        Raises:
            ProgramFault: The grader failed before it saw the answer.
        """
        with Session(program, isolation=self._isolation, limits=limits) as session:
            slot = session.open()
            asked = session.reset(slot, instance)
            if asks is not None and asked.observation != asks:
                raise ProgramFault("the scorer's item is not the question that was asked")
            try:
                return session.step(slot, action)
            except ProgramFault as fault:
                return fault


def _failed(fault: ProgramFault, answer: str = "") -> Grade:
    """The grade of an answer whose grader failed."""
    return Grade(None, False, f"{fault.reason}: {fault}"[:_MOST_NOTE], answer)


def _code_limits(question: Question) -> Limits:
    size = len(question.tests) + sum(len(case.input) for case in question.cases)
    return Limits(
        memory_bytes=_LIMITS.memory_bytes, load_seconds=_LIMITS.load_seconds, step_seconds=question.seconds,
        action_chars=2 * (6 * (size + MOST_CHARS)) + 1024, text_chars=_MOST_OUTPUT,
    )  # fmt: skip


def _compared(question: Question, observation: str, code: str) -> Grade:
    """Compare what the code wrote with what it should have; here, where it cannot reach."""
    try:
        outputs = _outputs(observation)
    except msgspec.DecodeError:
        return wrong("the code wrote too much, or disturbed its grader", code)
    if len(outputs) != len(question.cases):
        return wrong("the code disturbed its grader", code)
    for number, ((state, text), case) in enumerate(zip(outputs, question.cases, strict=True), 1):
        if state != "ok":
            return wrong(f"case {number}: {text}"[:_MOST_NOTE], code)
        if _lines(text) != _lines(case.output):
            return wrong(f"case {number}: another output", code)
    return right(code)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
