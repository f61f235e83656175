from __future__ import annotations

from typing import Any

import pytest
from byte_tokenizer import ByteTokenizer

from spade_gym.models.chat_thinking import answer_start
from spade_gym.models.chat_tokens import TokenEncoder


class Words:
    """Ids are indexes into texts; nothing is a control token."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.added_tokens_decoder: dict[int, Any] = {}

    def apply_chat_template(self, conversation: Any, **settings: Any) -> Any:
        raise NotImplementedError

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        raise NotImplementedError

    def decode(self, token_ids: Any, *, skip_special_tokens: bool) -> str:
        return "".join(self.texts[number] for number in token_ids)


@pytest.mark.parametrize(
    ("texts", "start"),
    [
        (["yes", "."], 0),
        (["<think>", "\n", "hm"], 0),
        (["<think>\nhm\n", "</think>", "yes"], 2),
        (["hm", "</th", "ink>", "\n", "\n\n", "yes", "\n"], 5),
        (["<think>\nhm\n</", "think", ">\n\n", "yes"], 3),
        (["hm</think", ">\n\nyes"], 1),  # a token is kept whole: the answer begins with ">"
        (["a</think>", "b</think>", "c"], 2),
        (["a</think>"], 1),
        ([], 0),
    ],
)
def test_tags_of_plain_text(texts: list[str], start: int) -> None:
    assert answer_start(range(len(texts)), TokenEncoder(Words(texts))) == start


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>\nhm\n</think>\n\nyes<|im_end|>", "yes<|im_end|>"),
        ("hm</think>yes", "yes"),
        ("a</think>b</think>\n\nc\n\n", "c\n\n"),
        ("<think>hm", "<think>hm"),
        ("</think>\n", ""),
    ],
)
def test_tags_that_are_tokens(text: str, answer: str) -> None:
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids[answer_start(ids, TokenEncoder(tokenizer)) :]) == answer
