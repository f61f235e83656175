from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from grpo_policies import sample, trajectory
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.models.sample import Sample
from spade_trainers.grpo.packing import Piece, arrange, micro_batches, pieces_of


def piece(number: int, length: int) -> Piece:
    return Piece(number, 0, (5,) * length, (length - 1,), (7,), (-1.0,), (-1.0,), True)


def test_a_piece_ends_before_the_last_sampled_token_and_observations_have_no_place():
    held = Sample(
        (10, 11, 12, 13, 14, 15, 16),
        (0, 0, 1, 0, 1, 1, 0),
        (0.0, 0.0, -0.1, 0.0, -0.2, -0.3, 0.0),
        (0.0, 0.0, -0.05, 0.0, -0.2, -0.3, 0.0),
        (3, 4),
    )
    (found,) = pieces_of(trajectory("a", held, 1.0), 5, policy_version=4)
    assert found == Piece(
        5, 0, (10, 11, 12, 13, 14), (1, 3, 4), (12, 14, 15), (-0.1, -0.2, -0.3), (-0.05, -0.2, -0.3), False
    )


def test_every_turn_of_a_model_that_thinks_is_a_piece_and_empty_ones_are_none():
    turns = [sample([1, 2], [3], [-0.5], 2), sample([1, 2, 4], [], []), sample([1, 2, 6], [7, 8], [-0.1, -0.2], 2)]
    found = pieces_of(trajectory("a", turns, 1.0), 0, policy_version=2)
    assert [(one.key, one.ids, one.targets) for one in found] == [
        ((0, 0), (1, 2), (3,)),
        ((0, 2), (1, 2, 6, 7), (7, 8)),
    ]
    assert all(one.is_fresh for one in found)


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (Sample((1, 2), (0, 1, 1), (0.0, -1.0), (0.0, -1.0), (0,)), "of different lengths"),
        (Sample((1, 2), (1, 1), (0.0, -1.0), (0.0, -1.0), (0,)), "begin with 0"),
        (Sample((1, 2), (0, 2), (0.0, -1.0), (0.0, -1.0), (0,)), "must be of 0 and 1"),
    ],
)
def test_malformed_samples_are_refused(held, message):
    with pytest.raises(ValueError, match=message):
        pieces_of(trajectory("a", held, 1.0), 0, policy_version=0)


def test_packing_by_hand():
    lengths = [5, 2, 9, 4, 3, 12]
    pieces = [piece(number, length) for number, length in enumerate(lengths)]
    rows = micro_batches(pieces, 10, "rows")
    assert [[len(one.ids) for one in micro] for micro in rows] == [[12], [9], [5, 4], [3, 2]]
    assert [len(micro) for micro in micro_batches([piece(n, 4) for n in range(5)], 9, "rows")] == [2, 2, 1]
    packed = micro_batches(pieces, 10, "packed")  # all begin alike, so shorter ones come first
    assert [[len(one.ids) for one in micro] for micro in packed] == [[2, 3, 4], [5], [9], [12]]
    shared = micro_batches(pieces, 10, "packed", least_shared=3)
    assert [[len(one.ids) for one in micro] for micro in shared] == [[2, 3, 4, 5], [9], [12]]


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 60), st.sampled_from(["packed", "rows"]))
def test_every_piece_is_in_one_micro_batch_within_the_budget(lengths, budget, layout):
    pieces = [piece(number, length) for number, length in enumerate(lengths)]
    found = micro_batches(pieces, budget, layout)
    assert sorted(one.trajectory for micro in found for one in micro) == list(range(len(lengths)))
    for micro in found:
        sizes = [len(one.ids) for one in micro]
        assert len(micro) == 1 or (sum(sizes) if layout == "packed" else len(sizes) * max(sizes)) <= budget


@pytest.mark.parametrize("layout", ["packed", "rows"])
def test_places_point_at_what_comes_before_sampled_tokens(layout):
    turns = [sample([1, 2, 3], [4, 5], [-0.5, -0.5]), sample([6], [7], [-0.5])]
    pieces = pieces_of(trajectory("a", turns, 1.0), 0, policy_version=0)
    found = arrange(pieces, layout, "cpu")
    assert found.ids.flatten()[found.places].tolist() == [3, 4, 6]
    assert found.targets.tolist() == [4, 5, 7]
    assert found.positions.flatten()[found.places].tolist() == [2, 3, 0]
    assert tuple(found.ids.shape) == ((1, 5) if layout == "packed" else (2, 4))
    lengths = None if found.segments is None else [len(one.ids) for one in found.segments]
    assert lengths == ([4, 1] if layout == "packed" else None)


def test_shared_beginnings_are_laid_out_once():
    turns = [sample([1, 2, 3], [4, 5], [-0.5, -0.5]), sample([1, 2, 3], [4, 6, 7], [-0.5, -0.5, -0.5])]
    pieces = pieces_of(trajectory("a", turns, 1.0), 0, policy_version=0)
    found = arrange(pieces, "packed", "cpu", least_shared=2)
    assert found.ids.tolist() == [[1, 2, 3, 4, 6]]
    assert found.positions.tolist() == [[0, 1, 2, 3, 4]]
    assert found.places.tolist() == [2, 3, 2, 3, 4]
    assert found.targets.tolist() == [4, 5, 4, 6, 7]
