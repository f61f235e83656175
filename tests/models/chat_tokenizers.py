"""Small tokenizers of several families, trained on a few sentences, with templates in the style of the real ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent / "templates"

_TEXT = """You are at (3, 4). Walls: north, east. 12 turns left. Guess a number between 1 and 100.
The answer is too low; try again.\n\nYou win! I think the user wants 42.\n\nuser assistant system tool
def step(self, action):\n    return {"name": "look", "arguments": {"at": "door"}}\n
"""
_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_LLAMA = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
)
_DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")

#: Template, special tokens, other added tokens, first token, end token, whether words are split before merging.
FAMILIES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str | None, str, bool]] = {
    "qwen3": ("qwen3", _QWEN, _TAGS, None, "<|im_end|>", True),
    "qwen2_5": ("qwen2_5", _QWEN, _TAGS[2:4], None, "<|im_end|>", True),
    "llama3": ("llama3", _LLAMA, (), "<|begin_of_text|>", "<|eot_id|>", True),
    "smollm2": ("smollm2", _QWEN, (), None, "<|im_end|>", True),
    "chatml": ("chatml", _QWEN, (), None, "<|im_end|>", True),
    "deepseek_r1": ("deepseek_r1", _DEEPSEEK, _TAGS[:2], _DEEPSEEK[0], _DEEPSEEK[1], True),
    # Think tags that are plain text, and merges across newlines, tags and words.
    "joining": ("qwen3", _QWEN, (), None, "<|im_end|>", False),
    # No control token in the template at all.
    "plain": ("plain", ("</s>",), (), None, "</s>", False),
}


@cache
def tokenizer_of(family: str) -> Any:
    """Return the tokenizer of a family; it must not be changed."""
    template, special, added, first, end, splits = FAMILIES[family]
    return make_tokenizer(
        (TEMPLATES / f"{template}.jinja").read_text(), special, added, first=first, end=end, splits=splits
    )


def make_tokenizer(
    template: str,
    special: tuple[str, ...] = _QWEN,
    added: tuple[str, ...] = (),
    *,
    first: str | None = None,
    end: str = "<|im_end|>",
    splits: bool = True,
    swallows: str | None = None,
) -> Any:
    """Train a byte-level BPE tokenizer; ``swallows`` names a special token that takes white space after it in."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    words = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    parts = [pre_tokenizers.Split(words, "isolated"), bytes_] if splits else [bytes_]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    joined = "\nuser\nx\n\n>\n<think>\n</think>\n\nassistant\nuser\n" * 20
    tokenizer.train_from_iterator([_TEXT if splits else _TEXT + joined], trainer)
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False, rstrip=text == swallows) for text in special]
    )
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in added])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=first, eos_token=end, pad_token=special[0])
    wrapped.chat_template = template
    return wrapped
