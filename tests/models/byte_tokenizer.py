"""A tokenizer without dependencies: a byte is a token, and so is each control text. Chats are ChatML.

For tests that need a ``chat_format`` and no library: ``ChatFormat(ByteTokenizer())``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
_SPLIT = re.compile("(" + "|".join(map(re.escape, CONTROL)) + ")")


class AddedToken(NamedTuple):
    content: str
    special: bool


class ByteTokenizer:
    """Ids 0 to 255 are bytes; ids from 256 on are ``CONTROL``, in order.

    Args:
        strips_thinking: Whether the template leaves the thinking of answers before the last user message out, as that
            of Qwen3 does.
    """

    def __init__(self, *, strips_thinking: bool = False) -> None:
        self.name_or_path = "bytes"
        self.strips_thinking = strips_thinking
        self.eos_token_id = 256 + CONTROL.index("<|im_end|>")
        self.added_tokens_decoder = {
            256 + index: AddedToken(text, text.startswith("<|")) for index, text in enumerate(CONTROL)
        }

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        ids: list[int] = []
        for part in _SPLIT.split(text):
            if part in CONTROL:
                ids.append(256 + CONTROL.index(part))
            else:
                ids += part.encode()
        return ids

    def decode(self, token_ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        data = bytearray()
        for number in token_ids:
            if number < 256:
                data.append(number)
            elif not (skip_special_tokens and CONTROL[number - 256].startswith("<|")):
                data += CONTROL[number - 256].encode()
        return data.decode(errors="replace")

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, str]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tokenize: bool = False,
        add_generation_prompt: bool = False,
        enable_thinking: bool = True,
        **_: Any,
    ) -> str:
        if tokenize:
            raise ValueError("only tokenize=False is there")
        asked = max((index for index, message in enumerate(conversation) if message["role"] == "user"), default=-1)
        text = f"<|im_start|>system\nTools: {list(tools)}<|im_end|>\n" if tools else ""
        for index, message in enumerate(conversation):
            content = message["content"]
            if message["role"] == "assistant" and self.strips_thinking and index < asked:
                content = content.split("</think>")[-1].lstrip("\n")
            text += f"<|im_start|>{message['role']}\n{content}<|im_end|>\n"
        if add_generation_prompt:
            text += "<|im_start|>assistant\n" + ("" if enable_thinking else "<think>\n\n</think>\n\n")
        return text
