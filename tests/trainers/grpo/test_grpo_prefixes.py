from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spade_trainers.grpo.prefixes import Segment, shared_length, tree_of


def test_a_tree_by_hand():
    sequences = [(1, 2, 3, 4), (1, 2, 3, 5, 6), (9,), (1, 2, 8), (1, 2, 3)]
    found = tree_of(sequences, 1)
    assert found.segments == (
        Segment((1, 2), (), 0),
        Segment((3,), (0,), 2),
        Segment((4,), (0, 1), 3),
        Segment((5, 6), (0, 1), 3),
        Segment((8,), (0,), 2),
        Segment((9,), (), 0),
    )
    assert found.paths == ((0, 1, 2), (0, 1, 3), (5,), (0, 4), (0, 1))
    assert found.num_tokens == 8


def test_short_beginnings_are_repeated_and_longer_ones_below_them_found():
    sequences = [(1, 2, 3, 4, 5), (1, 2, 3, 4, 6), (1, 7)]
    found = tree_of(sequences, 2)
    assert found.segments == (
        Segment((1, 2, 3, 4), (), 0),
        Segment((5,), (0,), 4),
        Segment((6,), (0,), 4),
        Segment((1, 7), (), 0),
    )
    assert tree_of(sequences, 0).num_tokens == 12


def test_equal_sequences_are_one_where_they_are_long_enough():
    assert tree_of([(1, 2), (1, 2)], 2).paths == ((0,), (0,))
    assert tree_of([(1, 2), (1, 2)], 3).num_tokens == 4
    assert tree_of([], 1).segments == ()


def test_shared_length():
    assert shared_length((1, 2, 3), (1, 2, 4)) == 2
    assert shared_length((1, 2), (1, 2, 4)) == 2
    assert shared_length((), (1,)) == 0
    assert shared_length((3,), (1,)) == 0


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), max_size=20), st.integers(0, 4))
def test_each_path_spells_its_sequence(sequences, least):
    found = tree_of(sequences, least)
    assert len(found.paths) == len(sequences)
    for path, ids in zip(found.paths, sequences, strict=True):
        assert tuple(token for number in path for token in found.segments[number].ids) == ids
    for number, segment in enumerate(found.segments):
        assert segment.ids
        assert all(above < number for above in segment.above)
        assert segment.depth == sum(len(found.segments[above].ids) for above in segment.above)
        users = sum(number in path for path in found.paths)
        assert users == 1 or len(segment.ids) >= least > 0
