"""When is a completion over, and which text is it?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spade_gym.models.base import Finish, Sampling

#: A character takes at most four tokens, and the first tokens of a window may decode to something else.
_TOKENS_PER_CHARACTER, _MARGIN = 4, 8


class CompletionEnd:
    """Knows the end tokens of a model.

    Args:
        tokenizer: Of transformers.
        end_ids: Tokens after which a completion is over.
    """

    def __init__(self, tokenizer: Any, end_ids: Iterable[int]) -> None:
        self._tokenizer = tokenizer
        self.end_ids = frozenset(end_ids)
        self._silent = self.end_ids | frozenset(tokenizer.all_special_ids)

    def finish(self, ids: Sequence[int], sampling: Sampling, *, room: int) -> Finish | None:
        """Tell why a completion is over after its last token, or ``None`` when it is not.

        Args:
            ids: Sampled so far, at least one.
            sampling: Its stop texts and most tokens.
            room: Tokens that the context could hold after these.
        """
        if ids[-1] in self.end_ids or (sampling.stop and self._has_stopped(ids, sampling.stop)):
            return "stop"
        return "length" if len(ids) >= sampling.max_tokens or room <= 0 else None

    def text(self, ids: Sequence[int]) -> str:
        """Decode a completion without the special tokens at its end."""
        kept = len(ids)
        while kept and ids[kept - 1] in self._silent:
            kept -= 1
        return self._decode(ids[:kept])

    def _has_stopped(self, ids: Sequence[int], stop: Sequence[str]) -> bool:
        window = _TOKENS_PER_CHARACTER * max(map(len, stop)) + _MARGIN
        tail = self._decode(ids[-window:])
        return any(text in tail for text in stop)

    def _decode(self, ids: Sequence[int]) -> str:
        text = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)
