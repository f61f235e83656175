"""The forward passes of rows that are decoded together: reading prompts, then one token for every row at a time.

A row enters when there is a place and leaves when it ends; the others are neither padded for it nor moved. Reading a
prompt stops before its last token, which is then decoded together with the other rows, so that one pass serves both.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from spade_gym.models.base import ModelError, ModelRequest
from spade_gym.models.prefix_store import MIN_SHARED, PrefixStore, shared
from spade_gym.models.slot_cache import Columns, SlotCache

#: Most tokens of one pass over prompts (on a CPU, elsewhere), and how much of it must not be padding.
_PASS_TOKENS, _DEVICE_PASS_TOKENS, _MIN_FILL = 1024, 8192, 0.75
_KNOWN_LAYERS = {"full_attention", "sliding_attention"}
#: Between the cached and the plain next-token distribution, in total variation; 16-bit weights differ by about 0.01.
_TOLERANCE = 0.05


@dataclass(slots=True, eq=False)
class Row:
    """One request under way.

    Attributes:
        request: What was asked.
        number: Of its submission.
        submitted: When, in seconds of ``time.perf_counter``.
        context: Prompt and sampled ids.
        rng: Draws this row's numbers, one a token.
        logprobs: Of the sampled ids; see ``Completion``.
        kept_logprobs: The same after truncation.
        cached: How much of the context has been read.
    """

    request: ModelRequest
    number: int
    submitted: float
    context: list[int]
    rng: np.random.Generator
    logprobs: list[float] = field(default_factory=list)
    kept_logprobs: list[float] = field(default_factory=list)
    cached: int = 0

    @property
    def ids(self) -> list[int]:
        """The sampled ids."""
        return self.context[len(self.context) - len(self.logprobs) :]


class _Reused(NamedTuple):
    length: int
    slot: int
    columns: Columns | None


class Decoder:
    """Rows that are decoded together by one transformers model.

    Args:
        model: A causal language model of transformers whose layers all attend to keys and values.
        reuse_tokens: How many tokens of rows that have left are remembered for prompts that begin alike.

    Raises:
        ModelError: The model keeps another kind of state, or computes something else with a cache than without.
    """

    def __init__(self, model: Any, *, reuse_tokens: int) -> None:
        self.model = model
        self.rows: list[Row] = []
        self.prefixes = PrefixStore(reuse_tokens)
        config = model.config.get_text_config()
        self._layers = getattr(config, "layer_types", None) or []
        self._window = getattr(config, "sliding_window", None)
        if self._layers and "sliding_attention" not in self._layers:
            self._window = None
        _check_kind(model, config, self._layers)
        parameters = inspect.signature(_innermost(model).forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._pass_tokens = _PASS_TOKENS if model.device.type == "cpu" else _DEVICE_PASS_TOKENS
        self._cache = SlotCache(config.num_hidden_layers)
        self._check_parity(min(config.vocab_size, 1000))

    @property
    def bytes_per_token(self) -> int:
        """What the keys and values of one token take."""
        return self._cache.bytes_per_token

    def add(self, rows: Sequence[Row]) -> None:
        """Take rows in and read their prompts; what another row has read, or had read, is copied."""
        waiting = list(rows)
        while waiting:
            wave: list[Row] = []
            later: list[Row] = []
            for row in waiting:
                (later if self._gains(row, wave) else wave).append(row)
            self._read(wave)
            waiting = later

    def _gains(self, row: Row, wave: list[Row]) -> bool:
        """Tell whether a row has more to copy once these rows have been read."""
        if not wave or not self.prefixes.max_tokens:
            return False
        return max(shared(row.context, other.context) for other in wave) >= self._reused(row).length + MIN_SHARED

    def step(self) -> torch.Tensor:
        """Read the last token of every row and return the logits of the next, of shape (rows, vocabulary)."""
        logits = self._forward(0, [row.context[row.cached :] for row in self.rows], [row.cached for row in self.rows])
        for row in self.rows:
            row.cached += 1
        return logits

    def remove(self, leaving: Collection[Row], *, spoilt: Collection[Row] = ()) -> None:
        """Let rows go. What they have read is remembered, except for spoilt ones (their numbers are not finite)."""
        for slot in range(len(self.rows) - 1, -1, -1):
            row = self.rows[slot]
            if row not in leaving:
                continue
            if row in spoilt:
                self._cache.wipe(slot)
            elif self.prefixes.wants(row.cached):
                self.prefixes.keep(row.context[: row.cached], self._cache.take(slot, row.cached))
            last = self.rows.pop()
            if last is not row:
                self._cache.move(len(self.rows), slot, last.cached)
                self.rows[slot] = last

    def _read(self, rows: list[Row]) -> None:
        reused = [self._reused(row) for row in rows]
        for row, found in zip(rows, reused, strict=True):
            row.cached = found.length
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].context) - rows[place].cached)
        self._cache.reserve(len(self.rows) + len(rows), max(len(row.context) for row in rows) + 1)
        first = len(self.rows)
        for place in order:
            row, found = rows[place], reused[place]
            if found.columns is not None:
                self._cache.put(len(self.rows), found.columns, row.cached)
            elif row.cached:
                self._cache.move(found.slot, len(self.rows), row.cached)
            self.rows.append(row)
        while first < len(self.rows):
            group = self._group(first)
            while any(len(row.context) - row.cached > 1 for row in group):
                pieces = [row.context[row.cached : -1][: self._pass_tokens] for row in group]
                self._forward(first, pieces, [row.cached for row in group])
                for row, piece in zip(group, pieces, strict=True):
                    row.cached += len(piece)
            first += len(group)

    def _reused(self, row: Row) -> _Reused:
        """Find where a prompt's beginning is already: in the slot of a row, or in the store."""
        if not self.prefixes.max_tokens:
            return _Reused(0, 0, None)
        wanted = row.context[:-1]
        length, columns = self.prefixes.longest(wanted)
        best = _Reused(length, 0, columns)
        for slot, other in enumerate(self.rows):
            length = min(shared(wanted, other.context), other.cached)
            if length > best.length:
                best = _Reused(length, slot, None)
        return best

    def _group(self, first: int) -> list[Row]:
        """Return the rows from a slot on that are read in one pass (they are sorted by length)."""
        group = [self.rows[first]]
        for row in self.rows[first + 1 :]:
            longest = len(row.context) - row.cached - 1
            tokens = sum(len(other.context) - other.cached - 1 for other in group) + longest
            size = longest * (len(group) + 1)
            if size > self._pass_tokens or tokens < _MIN_FILL * size:
                break
            group.append(row)
        return group

    def _forward(self, first: int, tokens: list[list[int]], starts: list[int]) -> torch.Tensor:
        """Run rows in neighbouring slots; shorter ones are padded on the right, where nothing of theirs is yet."""
        longest, device = max(map(len, tokens)), self.model.device
        width = max(starts) + longest
        self._cache.reserve(first + len(tokens), width)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in tokens], device=device)
        begins = torch.tensor(starts, device=device)[:, None]
        columns = begins + torch.arange(longest, device=device)
        self._cache.aim(first, columns, width)
        ends = begins + torch.tensor([[max(len(row), 1) - 1] for row in tokens], device=device)
        plain = len(set(starts)) == 1 and len(set(map(len, tokens))) == 1 and (longest == 1 or starts[0] == 0)
        if self._window is not None and width > self._window:
            plain = False
        result = self.model(
            input_ids=ids,
            attention_mask=None if plain else self._masks(columns, width),
            position_ids=columns.minimum(ends),
            use_cache=True,
            **{self._cache_name: self._cache},
            **self._last_only,
        )
        logits: torch.Tensor = result.logits[:, -1]
        return logits

    def _masks(self, columns: torch.Tensor, width: int) -> Any:
        """Return what is added to attention scores: each position sees its own row up to itself."""
        behind = columns[:, None, :, None] - torch.arange(width, device=columns.device)
        full = self._mask(behind >= 0)
        if self._window is None:
            return full
        sliding = self._mask((behind >= 0) & (behind < self._window))
        if not self._layers:
            return sliding
        return {"full_attention": full, "sliding_attention": sliding}

    def _mask(self, seen: torch.Tensor) -> torch.Tensor:
        dtype = self.model.dtype
        nothing = torch.zeros((), dtype=dtype, device=seen.device)
        return nothing.expand(seen.shape).masked_fill(~seen, torch.finfo(dtype).min)

    def _check_parity(self, vocabulary: int) -> None:
        """Compare passes with padding, cache and mask with a plain one: a wrong cache gives no error, but noise."""
        ids = [(7 * place + 3) % vocabulary for place in range(12)]
        try:
            self._forward(0, [ids[:5], ids[:3]], [0, 0])
            self._forward(0, [ids[5:6], ids[3:4]], [5, 3])
            found = self._forward(0, [ids[6:], ids[4:10]], [6, 4])[0]
            plain = self.model(input_ids=torch.tensor([ids], device=self.model.device), use_cache=False).logits[0, -1]
        except (
            AttributeError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise ModelError(
                f"the decode loop cannot drive {type(_innermost(self.model)).__name__} "
                f"({type(error).__name__}: {error}); open it as vllm:PATH or openai:URL#MODEL"
            ) from error
        distance = 0.5 * (found.float().softmax(-1) - plain.float().softmax(-1)).abs().sum().item()
        if (
            distance > _TOLERANCE
        ):  # weights that are not finite are no fault of the loop: their requests fail one by one
            raise ModelError(
                f"{type(_innermost(self.model)).__name__} computes another distribution with a cache than without "
                f"(total variation {distance:.3f}, allowed {_TOLERANCE}); open it as vllm:PATH or openai:URL#MODEL"
            )
        self._cache.wipe(0)
        self._cache.wipe(1)


def _innermost(model: Any) -> Any:
    """Return the model inside an adapter of peft."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _check_kind(model: Any, config: Any, layers: Sequence[str]) -> None:
    other = sorted(set(layers) - _KNOWN_LAYERS)
    if other or getattr(_innermost(model), "_is_stateful", False):
        raise ModelError(
            f"{type(_innermost(model)).__name__} keeps a state other than keys and values "
            f"({', '.join(other) or 'recurrent layers'}); open it as vllm:PATH or openai:URL#MODEL"
        )
    if config._attn_implementation not in ("sdpa", "eager"):
        raise ModelError(
            f"the attention implementation must be 'sdpa' or 'eager', got {config._attn_implementation!r}; "
            "call model.set_attn_implementation('sdpa')"
        )
