from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from spade_gym.models.sample import Sample
from spade_trainers.bench.play_lengths import lengths_of, read_lengths, trajectories_of


def test_lengths_and_beginnings_are_kept_and_words_are_not():
    mask = (0, 0, 1, 1, 0, 1)
    one = Sample((5, 6, 7, 8, 9, 10), mask, (0.0,) * 6, (0.0,) * 6, (0,))
    other = Sample((5, 6, 7, 3), (0, 0, 0, 1), (0.0,) * 4, (0.0,) * 4, (0,))
    found = lengths_of([one, other], "by hand")
    assert found["source"] == "by hand"
    assert sorted(found["segments"]) == [1, 3, 3]
    assert found["samples"][0]["sampled"] == [[2, 4], [5, 6]]
    assert found["samples"][1]["sampled"] == [[3, 4]]
    first, second = trajectories_of(found, 100)
    assert first.samples[0].mask == mask
    assert first.samples[0].ids[:3] == second.samples[0].ids[:3]
    assert first.samples[0].ids[3] != second.samples[0].ids[3]
    assert [item.advantage for item in (first, second)] == [1.0, -1.0]


def test_what_ships_are_real_plays():
    found = read_lengths()
    held = trajectories_of(found, 1000)
    assert len(held) == 48
    assert "48 plays without hint of 2 rollouts" in found["source"]
    assert all(80 < len(item.samples[0].ids) < 300 and 0 < sum(item.samples[0].mask) < 73 for item in held)
