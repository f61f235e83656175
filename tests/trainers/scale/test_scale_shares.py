"""Who computes which micro-batch, and what is told: without other processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from trainers.grpo.grpo_policies import sample, trajectory

from spade_gym.selfplay.trainer import UpdateBatch
from spade_trainers.grpo.orders import Load, Make, Save, Stop, Update, packed, unpacked
from spade_trainers.grpo.packing import IDLE, Piece, micro_batches
from spade_trainers.grpo.shares import share_of


def piece(number: int, length: int) -> Piece:
    return Piece(number, 0, (number, *range(length - 1)), (0,), (1,), (-1.0,), (-1.0,), True)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 100), st.integers(1, 8))
def test_every_piece_is_computed_once_and_all_compute_as_often(lengths, budget, size):
    pieces = [piece(number, length) for number, length in enumerate(lengths)]
    for layout in ("packed", "rows"):
        shares = [
            share_of(pieces, lambda some: micro_batches(pieces, some, layout), budget, rank=rank, size=size)  # noqa: B023
            for rank in range(size)
        ]
        assert len({len(share) for share in shares}) == 1
        found = [one for share in shares for micro in share for one in micro if one.sample != IDLE]
        assert sorted(one.trajectory for one in found) == list(range(len(lengths)))
        idle = [micro for share in shares for micro in share if micro[0].sample == IDLE]
        assert all(len(micro) == 1 and len(micro[0].ids) == 1 for micro in idle)
        assert len(idle) < size


def test_two_pieces_of_one_micro_batch_are_parted_for_two_processes():
    pieces = [piece(0, 4), piece(1, 5)]
    split = [
        share_of(pieces, lambda some: micro_batches(pieces, some, "packed"), 100, rank=rank, size=2)
        for rank in range(2)
    ]
    assert split == [[(pieces[0],)], [(pieces[1],)]]


def test_alone_a_process_computes_what_it_always_did():
    pieces = [piece(number, 7) for number in range(5)]
    expected = micro_batches(pieces, 20, "packed")
    assert share_of(pieces, lambda some: micro_batches(pieces, some, "packed"), 20, rank=0, size=1) == expected


def test_orders_are_data_that_come_back_as_they_were():
    batch = UpdateBatch(3, (trajectory("a", sample([1, 2], [3], [-0.5]), 0.25, role="designer", temperature=0.6),))
    for order in (Make({"kl": 0.1}, "{}", "float32", 2), Update(batch), Save(), Load("folder"), Stop()):
        assert unpacked(packed(order)) == order
    assert isinstance(unpacked(packed(Update(batch))).batch.trajectories[0].samples[0].ids, tuple)


@pytest.mark.parametrize(
    "data", [b"", b"\x80", msgspec.msgpack.encode({"type": "Eval", "code": "1"}), b"cos\nsystem\n"]
)
def test_what_is_no_order_is_refused(data):
    with pytest.raises(msgspec.DecodeError):
        unpacked(data)
