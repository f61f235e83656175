"""Where the keys and values of rows under way are kept: one slot a row, columns from 0.

Rows of any lengths stand beside each other without padding on their left: a new key is written at the row's own
position. So a row can enter, leave, or begin with another row's prefix while the others stay where they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from transformers.cache_utils import Cache, DynamicLayer

_COLUMNS = 64


class Columns(NamedTuple):
    """The keys and values of one row's first positions, a pair of tensors (positions, heads, size) a layer."""

    layers: list[tuple[torch.Tensor, torch.Tensor]]


class SlotCache(Cache):  # type: ignore[misc]
    """A cache whose tensors have the shape (slots, columns, heads, size), seen by the model as it expects them.

    Args:
        num_layers: Of the model.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__(layers=[DynamicLayer() for _ in range(num_layers)])
        self._buffers: list[tuple[torch.Tensor, torch.Tensor] | None] = [None] * num_layers
        self._slots, self._columns = 0, 0
        self._first, self._width = 0, 0
        self._rows: Any = None
        self._positions: Any = None

    @property
    def bytes_per_token(self) -> int:
        """What one column of one slot takes; 0 before the first forward pass."""
        return sum(
            tensor.element_size() * tensor.shape[2] * tensor.shape[3]
            for buffer in self._buffers
            if buffer is not None
            for tensor in buffer
        )

    def reserve(self, slots: int, columns: int) -> None:
        """Make room for so many slots and columns; what is there stays."""
        if slots <= self._slots and columns <= self._columns:
            return
        if slots > self._slots:
            self._slots = max(slots, min(2 * self._slots, slots + 32))
        if columns > self._columns:
            self._columns = -(-max(columns, columns + columns // 4) // _COLUMNS) * _COLUMNS
        for layer, buffer in enumerate(self._buffers):
            if buffer is not None:
                self._buffers[layer] = (self._larger(buffer[0]), self._larger(buffer[1]))

    def aim(self, first: int, positions: torch.Tensor, width: int) -> None:
        """Say where the next forward pass writes and reads.

        Args:
            first: Slot of its first row; the others follow.
            positions: Column of every token, of shape (rows, tokens).
            width: Columns that are read.
        """
        self._first, self._width, self._positions = first, width, positions
        self._rows = torch.arange(first, first + positions.shape[0], device=positions.device)[:, None]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a layer's new keys and values and return all that its rows may see."""
        buffer = self._buffers[layer_idx]
        if buffer is None:
            buffer = self._buffers[layer_idx] = (self._empty(key_states), self._empty(value_states))
        last = self._first + key_states.shape[0]
        for tensor, states in zip(buffer, (key_states, value_states), strict=True):
            tensor[self._rows, self._positions] = states.transpose(1, 2)
        keys, values = (tensor[self._first : last, : self._width].transpose(1, 2) for tensor in buffer)
        return keys, values

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first columns of one slot to another."""
        for tensor in self._tensors():
            tensor[target, :length] = tensor[source, :length]

    def wipe(self, slot: int) -> None:
        """Forget a slot: masked columns are still multiplied by zero, and zero times not-a-number is none."""
        for tensor in self._tensors():
            tensor[slot] = 0

    def take(self, slot: int, length: int) -> Columns:
        """Return a copy of a slot's first columns."""
        return Columns(
            [(buffer[0][slot, :length].clone(), buffer[1][slot, :length].clone()) for buffer in self._buffers if buffer]
        )

    def put(self, slot: int, columns: Columns, length: int) -> None:
        """Write what ``take`` returned, as far as ``length``."""
        for tensor, part in zip(self._tensors(), (part for pair in columns.layers for part in pair), strict=True):
            tensor[slot, :length] = part[:length]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return how many columns are read (the model asks when it is given no positions)."""
        return self._width

    def _tensors(self) -> list[torch.Tensor]:
        return [tensor for buffer in self._buffers if buffer is not None for tensor in buffer]

    def _empty(self, states: torch.Tensor) -> torch.Tensor:
        return states.new_zeros(self._slots, self._columns, states.shape[1], states.shape[3])

    def _larger(self, tensor: torch.Tensor) -> torch.Tensor:
        larger = tensor.new_zeros(self._slots, self._columns, *tensor.shape[2:])
        larger[: tensor.shape[0], : tensor.shape[1]] = tensor
        return larger
