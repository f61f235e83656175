"""Texts as fixed-length sequences of token ids, for agents that read and write tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import MultiDiscrete
from gymnasium.utils import RecordConstructorArgs

from spade_gym.envs.wrappers.text_spaces import need_text_actions, need_text_observations


class Tokenizer(Protocol):
    """What turns text into ids and back; tokenizers of ``transformers`` fit (pass ``vocab_size`` and ``pad_id``)."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""


class Bytes:
    """The tokenizer without a vocabulary file: the 256 values of UTF-8 bytes."""

    vocab_size = 256

    def encode(self, text: str) -> Sequence[int]:
        """Return the bytes of a text."""
        return text.encode("utf-8", "replace")

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of bytes; a character that was cut apart becomes U+FFFD."""
        return bytes(ids).decode("utf-8", "replace")


class TokenMultiDiscrete(gym.Wrapper[Any, Any, str, Any], RecordConstructorArgs):
    r"""Makes observations, and on request actions, sequences of token ids: ``MultiDiscrete([vocab + 1] * length)``.

    Args:
        env: A text environment.
        length: Ids of one observation. Shorter texts are padded at the end, of longer ones ``keep`` is kept.
        action_length: Ids of one action; ``None`` leaves actions texts.
        tokenizer: Something with ``encode(text)`` and ``decode(ids)``; absent: UTF-8 bytes.
        vocab_size: Number of ids; absent: the tokenizer's ``vocab_size``.
        pad_id: Id that fills up; absent: ``vocab_size``, which adds one id to the space. One of the tokenizer's own
            ids may be given; in ``decode`` it ends the text.
        keep: ``end`` or ``start``: which part of a text that is too long. The newest part of an observation is
            usually its end.

    Raises:
        TypeError: The environment's observations (or actions) are no texts.
        ValueError: An argument is out of range.

    Example:
        >>> import gymnasium as gym, spade_gym
        >>> from spade_gym.envs.wrappers import TokenMultiDiscrete
        >>> env = TokenMultiDiscrete(gym.make("spade/BeaconWalk-v0"), length=300, action_length=16)
        >>> env.encode("go", length=4)
        array([103, 111, 256, 256])
        >>> env.decode([103, 111, 256, 256])
        'go'
        >>> observation, _ = env.reset(seed=1)
        >>> observation.shape
        (300,)
    """

    def __init__(
        self,
        env: gym.Env[str, Any],
        length: int = 512,
        *,
        action_length: int | None = None,
        tokenizer: Tokenizer | None = None,
        vocab_size: int | None = None,
        pad_id: int | None = None,
        keep: Literal["end", "start"] = "end",
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            length=length,
            action_length=action_length,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            pad_id=pad_id,
            keep=keep,
        )
        super().__init__(env)
        need_text_observations(env, "TokenMultiDiscrete")
        for key, value in (("length", length), ("action_length", action_length or 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{key} must be a positive whole number, got {value!r}")
        if keep not in ("end", "start"):
            raise ValueError(f"keep must be 'end' or 'start', got {keep!r}")
        self.tokenizer: Tokenizer = Bytes() if tokenizer is None else tokenizer
        self.vocab_size = _vocab_size(self.tokenizer, vocab_size)
        self.pad_id = self.vocab_size if pad_id is None else pad_id
        if not 0 <= self.pad_id <= self.vocab_size:
            raise ValueError(f"pad_id must be from 0 to vocab_size ({self.vocab_size}), got {pad_id!r}")
        self.length = length
        self.keep = keep
        num_ids = max(self.vocab_size, self.pad_id + 1)
        self.observation_space = MultiDiscrete(np.full(length, num_ids))
        self._writes = action_length is not None
        if action_length is not None:
            need_text_actions(env, "TokenMultiDiscrete with action_length")
            self.action_space = MultiDiscrete(np.full(action_length, num_ids))

    def encode(self, text: str, *, length: int | None = None) -> npt.NDArray[np.int64]:
        """Return the ids of a text, padded or cut: int64 array of shape (length,); absent: the observations'.

        Raises:
            ValueError: The tokenizer gave an id outside its vocabulary.
        """
        length = self.length if length is None else length
        whole = self.tokenizer.encode(text)
        ids = np.fromiter(whole[-length:] if self.keep == "end" else whole[:length], dtype=np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < self.vocab_size:
            raise ValueError(
                f"the tokenizer gave the ids {ids.min()} to {ids.max()}, outside 0 to {self.vocab_size - 1}: pass its "
                "vocab_size (for transformers: len(tokenizer))"
            )
        return np.concatenate([ids, np.full(length - len(ids), self.pad_id)])

    def decode(self, ids: npt.ArrayLike) -> str:
        """Return the text of ids, which ends at the first ``pad_id``."""
        numbers = np.asarray(ids, dtype=np.int64).ravel()
        ends = np.flatnonzero(numbers == self.pad_id)
        return self.tokenizer.decode((numbers[: ends[0]] if ends.size else numbers).tolist())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
        """Start an episode."""
        text, info = self.env.reset(seed=seed, options=options)
        return self.encode(text), info

    def step(self, action: Any) -> tuple[npt.NDArray[np.int64], SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one action: ids where ``action_length`` was given, else a text."""
        text, reward, terminated, truncated, info = self.env.step(self.decode(action) if self._writes else action)
        return self.encode(text), reward, terminated, truncated, info


def _vocab_size(tokenizer: Tokenizer, given: int | None) -> int:
    size = getattr(tokenizer, "vocab_size", None) if given is None else given
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"vocab_size must be a positive whole number (the tokenizer does not say it), got {size!r}")
    return int(size)
