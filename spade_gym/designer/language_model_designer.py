"""A designer that is a language model."""

from __future__ import annotations

from collections.abc import Sequence

from spade_gym.designer.ask import Answer, Question, ask_all
from spade_gym.designer.prompt_messages import messages_for, template_of
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.request import DesignReply, DesignRequest
from spade_gym.models.base import LanguageModel, Sampling

#: Method, section 7: tokens of a designer's reply.
DESIGN_SAMPLING = Sampling(max_tokens=16_384)


class LanguageModelDesigner:
    """Asks a language model for programs; all requests are in flight together.

    What it writes is not read here: replies become programs elsewhere, and are checked there.

    Args:
        model: The engine; it is not closed here.
        sampling: How to draw.
        thinking: Whether the model may think first; ``None`` leaves it to its template.
        prompts: The templates; the shipped ones by default.

    Attributes:
        name: The model's.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling = DESIGN_SAMPLING,
        *,
        thinking: bool | None = None,
        prompts: Prompts | None = None,
    ) -> None:
        self.name = model.name
        self._model = model
        self._sampling = sampling
        self._thinking = thinking
        self._prompts = prompts or Prompts()

    def write(self, requests: Sequence[DesignRequest]) -> list[DesignReply]:
        """Answer every request, in order; a failed, empty or truncated completion is a reply with an ``error``.

        Raises:
            ValueError: Two requests have the same key, or one names an unknown skill, domain or variant.
            ModelError: The engine lost a request.
        """
        questions = [Question(request.key, messages_for(request, self._prompts), request.seed) for request in requests]
        answers = ask_all(self._model, questions, self._sampling, thinking=self._thinking)
        return [
            self._reply(request, question, answer)
            for request, question, answer in zip(requests, questions, answers, strict=True)
        ]

    def _reply(self, request: DesignRequest, question: Question, answer: Answer) -> DesignReply:
        origin = {"kind": "model", "designer": self.name, "prompt": template_of(request)}
        if request.document is not None:
            origin["document"] = request.document.id
        return DesignReply(
            request=request,
            text=answer.text,
            error=answer.error,
            messages=question.messages,
            prompt_ids=answer.prompt_ids,
            completion=answer.completion,
            origin=tuple(origin.items()),
            outage=answer.outage,
        )
