"""A small byte-level BPE tokenizer, and its chat template.

Every digit is a token of its own, so that numbers are read and written digit by digit, and every line break begins one.
Within a line merges may pass from word to word: the lines that all programs share become few tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Ids in this order.
CONTROL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
PAD, END, ASSISTANT = CONTROL.index("<|pad|>"), CONTROL.index("<|end|>"), CONTROL.index("<|assistant|>")

_TEMPLATE = (
    "{%- for message in messages -%}<|{{ message.role }}|>{{ message.content }}<|end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


def make_tokenizer(texts: Iterable[str], *, size: int, max_context: int) -> Any:
    """Train a tokenizer of transformers on texts.

    Args:
        texts: What it shall be good at.
        size: Of the vocabulary, control tokens and bytes included.
        max_context: Most tokens of a chat.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n *"), "isolated"),
            pre_tokenizers.Split(Regex(r" ?\d"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(CONTROL),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=CONTROL[END],
        pad_token=CONTROL[PAD],
        chat_template=_TEMPLATE,
        model_max_length=max_context,
        clean_up_tokenization_spaces=False,
    )
