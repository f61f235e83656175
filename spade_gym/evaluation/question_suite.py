"""Questions with one reply as a suite: asked through the model's protocol, many at a time."""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from spade_gym.errors import SpadeError
from spade_gym.evaluation.grading import Grader
from spade_gym.evaluation.question import KINDS, Grade, Kind, Question, wrong
from spade_gym.evaluation.suite import Conditions, Order, Result, SuiteError, Task
from spade_gym.models.base import Completion, LanguageModel, Message, ModelError, ModelRequest
from spade_gym.models.chat import start_chat
from spade_gym.plain_file import read_text
from spade_gym.rollout.gameplay_prompt import Template
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import Counts
from spade_gym.storable import storable

_MAX_PROMPT_BYTES = 1 << 18


class QuestionSuite:
    """Questions; each is a task and a cluster of its own, unless its task says otherwise.

    Args:
        questions: With unique names.
        name: For reports.
        described: What ``describe`` tells beside the digest of the questions.

    Raises:
        SuiteError: There is no question, or two have the same name.
    """

    def __init__(self, questions: Sequence[Question], *, name: str, described: Mapping[str, Any]) -> None:
        if not questions:
            raise SuiteError(f"the suite {name} holds no question")
        names: set[str] = set()
        for question in questions:
            if question.task.name in names:
                raise SuiteError(f"the suite {name} holds two questions with the id {question.task.name!r}")
            names.add(question.task.name)
        self.name = name
        self.clusters = "questions"
        self.questions = tuple(questions)
        self.tasks: Sequence[Task] = tuple(question.task for question in questions)
        self._described = dict(described)

    def describe(self) -> dict[str, Any]:
        """Number and digest of the questions with their answers."""
        text = msgspec.json.encode([(question, question.shown) for question in self.questions], order="deterministic")
        return {**self._described, "questions": len(self.questions), "digest": hashlib.sha256(text).hexdigest()}

    def prompts(self, player: PlayerSettings) -> dict[str, str]:
        """Digests of the prompts of the questions' kinds; see ``Suite``."""
        return {
            kind: hashlib.sha256(repr(template).encode()).hexdigest()
            for kind, template in self._templates(player).items()
        }

    def _templates(self, player: PlayerSettings) -> dict[Kind, Template]:
        return _templates({question.kind for question in self.questions}, player.prompts)

    def work(self, orders: Sequence[Order], model: LanguageModel, conditions: Conditions) -> Generator[Result]:
        """Ask the orders' questions and grade the replies; see ``Suite``."""
        return _Asking(self.questions, self._templates(conditions.player), model, conditions).run(orders)


class _Asking:
    """The loop: keeps the model busy, grades what it answers."""

    def __init__(
        self,
        questions: Sequence[Question],
        templates: Mapping[Kind, Template],
        model: LanguageModel,
        conditions: Conditions,
    ) -> None:
        self._questions = questions
        self._templates = templates
        self._model = model
        self._conditions = conditions
        self._grader = Grader(conditions.isolation)
        known = [most for most in (model.max_context, conditions.player.context_tokens) if most is not None]
        self._most_context = min(known, default=None)
        self._asked: dict[str, Order] = {}
        self._counts = Counts()

    def run(self, orders: Sequence[Order]) -> Generator[Result]:
        """Yield results as they come."""
        self._grader.prepare({question.kind for question in self._questions})
        waiting = iter(orders)
        while True:
            for order in waiting:
                request = self._request(order)
                if request is None:
                    yield self._counted(Result(order.task, order.sample, 0.0, False, "context", "no room for a reply"))
                    continue
                self._model.submit(request)
                self._asked[order.key] = order
                if len(self._asked) >= self._conditions.max_in_flight:
                    break
            if not self._asked:
                return
            for completion in self._collect():
                yield self._counted(self._result(self._asked.pop(completion.key), completion))

    def _request(self, order: Order) -> ModelRequest | None:
        """The request of an order; ``None`` where the context has no room for a reply."""
        question, player = self._questions[order.task], self._conditions.player
        template = self._templates[question.kind]
        chat = start_chat(
            self._model,
            [*template.before, *question.before, Message("user", template.around(question.shown, question.functions))],
            tools=() if template.lists_tools else question.functions,
            thinking=player.thinking,
        )
        most = player.sampling.max_tokens
        if self._most_context is not None:
            most = min(most, self._most_context - chat.num_tokens)
        if most < 1:
            return None
        return chat.request(order.key, replace(player.sampling, max_tokens=most), order.seed)

    def _collect(self) -> list[Completion]:
        completions = self._model.collect()
        if not completions:
            raise ModelError(
                f"{self._model.name}: collect() returned nothing while {len(self._asked)} requests are in flight"
            )
        for completion in completions:
            if completion.key not in self._asked:
                raise ModelError(f"{self._model.name} answered {completion.key!r}, which is not in flight")
        return completions

    def _result(self, order: Order, completion: Completion) -> Result:
        """What came of an order; a reply that was cut off is wrong, and not graded."""
        if completion.finish == "error":
            grade = Grade(None, False, completion.error or "the model gave no reason")
        elif completion.finish == "length":
            grade = wrong("the reply reached its limit of tokens")
        else:
            grade = self._grader.grade(self._questions[order.task], completion.text)
        graded = "faulty" if grade.score is None else "answered" if grade.right or grade.answer else "unanswered"
        return Result(
            task=order.task,
            sample=order.sample,
            score=grade.score,
            right=grade.right,
            ended={"error": "aborted", "length": "cut", "stop": graded}[completion.finish],
            note=storable(grade.note),
            answer=storable(grade.answer),
            said=(storable(completion.text),),
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
        )

    def _counted(self, result: Result) -> Result:
        counts = self._counts
        self._counts = Counts(
            plays=counts.plays + 1,
            faulty=counts.faulty + (result.score is None),
            in_flight=len(self._asked),
            steps=counts.steps + 1,
            tokens=counts.tokens + result.completion_tokens,
        )
        if self._conditions.progress is not None:
            self._conditions.progress(self._counts)
        return result


def _templates(kinds: set[Kind], folder: Path | None) -> dict[Kind, Template]:
    """The prompts of some kinds: the bundled ones, or ``<kind>.md`` of a folder.

    Raises:
        SuiteError: One is missing.
        PromptError: One is malformed.
    """
    found: dict[Kind, Template] = {}
    for kind in sorted(kinds, key=KINDS.index):
        if folder is None:
            text = (
                importlib.resources.files("spade_gym.evaluation").joinpath("prompts", f"{kind}.md").read_text("utf-8")
            )
        else:
            try:
                text = read_text(folder / f"{kind}.md", max_bytes=_MAX_PROMPT_BYTES)
            except SpadeError as error:
                raise SuiteError(f"the prompts for questions cannot be read: {error}") from error
        found[kind] = Template.parse(text, f"{kind}.md")
    return found
