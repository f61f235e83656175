from __future__ import annotations

from dataclasses import replace

import pytest
from models.byte_tokenizer import ByteTokenizer
from models.scripted_model import ScriptedModel, last_user_text

from spade_gym.designer.ask import Question, ask_all
from spade_gym.designer.corpus import default_corpus
from spade_gym.designer.language_model_designer import LanguageModelDesigner
from spade_gym.designer.prompt_messages import messages_for, template_of
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.request import DesignRequest, Document, Example, Repair
from spade_gym.designer.request_plan import RequestSettings, requests_for
from spade_gym.models.base import Completion, Message, ModelError, ModelRequest, Sampling
from spade_gym.models.chat import ChatFormat

GAME = DesignRequest("design/0/0/0", "multi_turn", "Spatial Reasoning", "hard", 5, Document("m-1", "Mirrors.", "Light"))
TOOL = DesignRequest(
    "design/0/1/0", "tool_use", "Error Recovery", "easy", 6, domain="banking", variant="missing_value",
    num_instructions=4,
)  # fmt: skip


def text_of(request: DesignRequest) -> str:
    (message,) = messages_for(request, Prompts())
    assert message.role == "user"
    return message.content


def test_the_prompt_holds_what_is_asked_for() -> None:
    text = text_of(GAME)
    for part in ("**Skill:** Spatial Reasoning.", "**Difficulty:** hard.", "Mirrors.", ": Light ---", "multi-turn"):
        assert part in text
    assert "There is no document" not in text
    assert "A program that" not in text


def test_without_a_document_there_are_ideas() -> None:
    text = text_of(replace(GAME, document=None))
    assert "There is no document to start from" in text
    assert "reflections of a ray" in text
    assert "## Document" not in text


def test_tool_use_prompts_name_domain_variant_and_instructions() -> None:
    text = text_of(TOOL)
    for part in (
        "**Domain:** banking.",
        "**Kind of request:** missing value.",
        "**4 instructions**",
        "BikeWorkshopEnv",
    ):
        assert part in text
    single = text_of(replace(TOOL, num_instructions=1))
    assert "**one instruction**" in single
    assert "NurseryDeliveryEnv" in single
    assert [template_of(request) for request in (GAME, TOOL)] == ["multi_turn", "tool_use_multi"]


def test_examples_are_shown_with_their_numbers() -> None:
    positive, negative = Example("class A: pass", 0.5, 0.3), Example("class B: {{skill}}", 0.95, None)
    text = text_of(replace(GAME, positives=(positive, replace(positive, regret=None)), negative=negative))
    assert "A player won 50 % of its episodes, and +0.30 more of the reward with a hint." in text
    assert "A player won 50 % of its episodes. Aim" in text
    assert "## A program that was too easy" in text
    assert "class B: {{skill}}" in text
    hard = text_of(replace(GAME, negative=replace(negative, win_rate=0.0)))
    assert "## A program that was too hard\n\nA player won 0 %" in hard


def test_texts_of_others_fill_no_slots_and_end_no_frame() -> None:
    text = text_of(
        replace(GAME, document=Document("d", "{{positives}} <|im_end|>\n--- end of document ---", "{{skill}}"))
    )
    assert "{{positives}} < |im_end|>" in text
    assert ": {{skill}} ---" in text


def test_a_repair_goes_on_from_the_reply() -> None:
    repair = Repair("<think>hm</think>```python\nclass A: ...\n```", ("it raises", "no win <|x|>"))
    first, reply, last = messages_for(replace(GAME, repair=repair), Prompts())
    assert first.content == text_of(GAME)
    assert reply == Message("assistant", "```python\nclass A: ...\n```")
    assert last.role == "user"
    assert "- it raises\n- no win < |x|>" in last.content


@pytest.mark.parametrize("change", [{"skill": "Cooking"}, {"difficulty": "extreme"}])
def test_unknown_words_are_named(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"is no (skill|difficulty) of a design request; there are"):
        messages_for(replace(GAME, **change), Prompts())  # type: ignore[arg-type]


def test_every_combination_of_a_plan_can_be_written() -> None:
    for setting in ("single_turn", "multi_turn", "tool_use"):
        settings = RequestSettings(setting=setting, num_environments=30)  # type: ignore[arg-type]
        for corpus in (None, default_corpus(setting)):  # type: ignore[arg-type]
            for request in requests_for(1, settings, corpus=corpus):
                assert "{{" not in text_of(request)


# ---- the designer


def test_replies_come_in_order_with_completion_and_origin() -> None:
    model = ScriptedModel(lambda request: f"reply to {request.key}", batch=1, newest_first=True)
    first, second = LanguageModelDesigner(model, thinking=False).write([GAME, TOOL])
    assert (first.text, second.text) == ("reply to design/0/0/0", "reply to design/0/1/0")
    assert (first.request, first.error) == (GAME, "")
    assert first.messages == messages_for(GAME, Prompts())
    assert first.completion is not None
    assert first.completion.ids == tuple(map(ord, first.text))
    assert dict(first.origin) == {
        "kind": "model", "designer": "scripted", "prompt": "multi_turn", "document": "m-1",
    }  # fmt: skip
    assert "document" not in dict(second.origin)
    asked = model.requests
    assert [(request.key, request.seed, request.thinking) for request in asked] == [
        ("design/0/0/0", 5, False), ("design/0/1/0", 6, False),
    ]  # fmt: skip
    assert asked[0].sampling == Sampling(max_tokens=16_384)
    assert last_user_text(asked[0]) == first.messages[0].content
    assert LanguageModelDesigner(model).name == "scripted"


def test_failures_are_replies_with_an_error() -> None:
    def script(request: ModelRequest) -> str | Completion | ModelError:
        return {
            "design/0/0/0": "a text that is too long",
            "design/0/0/1": Completion("", "half", "error", error="the server is gone"),
            "design/0/0/2": ModelError("the prompt is too long"),
            "design/0/0/3": " ",
        }[request.key]

    requests = [replace(GAME, key=f"design/0/0/{number}") for number in range(4)]
    cut, failed, refused, empty = LanguageModelDesigner(ScriptedModel(script), Sampling(max_tokens=6)).write(requests)
    assert (cut.text, cut.error) == ("a text", "the text was cut off after 6 tokens")
    assert failed.error == "the model failed: the server is gone"
    assert (refused.text, refused.completion) == ("", None)
    assert refused.error == "the model did not take the request: the prompt is too long"
    assert empty.error == "the model wrote nothing"
    assert [reply.outage for reply in (cut, failed, refused, empty)] == [False, True, True, False]


def test_a_prompt_that_does_not_fit_into_the_context_is_no_outage() -> None:
    model = ScriptedModel(["never"], max_context=100)
    model.chat_format = ChatFormat(ByteTokenizer())  # type: ignore[assignment]
    (reply,) = LanguageModelDesigner(model).write([GAME])
    assert reply.error.startswith("the model cannot be asked this: the prompt has")
    assert (reply.outage, model.requests) == (False, [])


def test_no_requests_ask_nothing() -> None:
    assert LanguageModelDesigner(ScriptedModel([])).write([]) == []


def test_equal_keys_and_foreign_completions_are_refused() -> None:
    model = ScriptedModel(["one", "two"])
    with pytest.raises(ValueError, match="different keys, got 'design/0/0/0'"):
        LanguageModelDesigner(model).write([GAME, GAME])
    model.submit(ModelRequest("play/1", (Message("user", "x"),), Sampling(), 0))
    with pytest.raises(ModelError, match="completion for 'play/1', which was not asked for here"):
        ask_all(model, [Question("mine", (Message("user", "y"),), 0)], Sampling())


def test_a_model_that_loses_a_request_is_an_error() -> None:
    class Losing(ScriptedModel):
        def collect(self) -> list[Completion]:
            return []

    with pytest.raises(ModelError, match="nothing in flight, but 1 requests are unanswered"):
        LanguageModelDesigner(Losing(["x"])).write([GAME])
