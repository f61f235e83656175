"""Where does an answer begin, after what the model thought first?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from spade_gym.models.chat_tokens import TokenEncoder

_END = "</think>"


def answer_start(ids: Sequence[int], encoder: TokenEncoder) -> int:
    """Return the index of the first id after the last ``</think>`` and the newlines that follow; 0 without one.

    Ids stay whole: one that holds visible text next to the tag or a newline belongs to the answer.

    Args:
        ids: Sampled.
        encoder: Of the model.
    """
    number = encoder.id_of(_END)
    if number is None:
        start = _start_in_text(ids, encoder)
    else:
        start = max((index + 1 for index, one in enumerate(ids) if one == number), default=0)
    if start == 0:
        return 0
    while start < len(ids) and encoder.decode(ids[start : start + 1]).strip("\n") == "":
        start += 1
    return start


def _start_in_text(ids: Sequence[int], encoder: TokenEncoder) -> int:
    """Do without a token of its own for the tag: look where the decoded text has come to its end."""
    text = encoder.decode(ids)
    end = text.rfind(_END) + len(_END)
    if end < len(_END):
        return 0
    count = bisect_left(range(len(ids)), end, key=lambda size: len(encoder.decode(ids[:size])))
    beyond = encoder.decode(ids[:count])[end:]
    return count - 1 if beyond.strip() else count
