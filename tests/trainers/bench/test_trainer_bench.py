from __future__ import annotations

import json

import pytest

from spade_gym.errors import SpadeError
from spade_trainers.bench import trainer
from spade_trainers.bench.duel import ratio_of


def kept(**figures) -> dict:
    return {"setting": {"size": {}, "threads": 1}, "figures": {"tiny": figures}, "parts": {"tiny": {}}}


def test_the_report_says_what_was_met_missed_and_not_measured():
    result = trainer.result_of(
        kept(
            update_time_over_trl=0.5, peak_memory_over_trl=0.95, generation_over_trl=None,
            generation_reason="trl is not installed: pip install trl\x1b[2J", packing_speedup=1.5,
        ),
        ["tiny"],
    )  # fmt: skip
    lines = trainer.report(result, ["tiny"])
    assert lines[0] == "tiny:"
    assert lines[1].endswith("0.500   at most 0.9: met")
    assert lines[2].endswith("0.950   at most 0.8: MISSED")
    assert "not measured: trl is not installed" in lines[3]
    assert "\x1b" not in lines[3]
    assert lines[4].endswith("1.500   at least 1.5: met")
    assert len(lines) == 5


def test_the_first_shape_s_figures_stand_at_the_top():
    both = {
        "setting": {"size": {}, "threads": 2},
        "figures": {"smollm2": {"packing_speedup": 2.0}, "tiny": {"packing_speedup": 3.0}},
        "parts": {"smollm2": {"packing": {"date": "2026-11-30"}}, "tiny": {}},
    }
    result = trainer.result_of(both, ["smollm2", "tiny"])
    assert (result["packing_speedup"], result["tiny"]["packing_speedup"], result["threads"]) == (2.0, 3.0, 2)
    assert result["measured"]["smollm2"] == {"packing": "2026-11-30"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "holds no results of this benchmark"),
        ('{"setting": {}, "figures": {}}', "holds results of another setting"),
        ('{"setting": {"threads": 2}, "figures": {}, "parts": {}}', "not {'threads': 1}"),
    ],
)
def test_results_of_something_else_are_not_mixed(tmp_path, text, message):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(SpadeError, match=message):
        trainer._read(path, {"threads": 1})
    assert path.read_text() == text


def test_results_of_the_same_setting_are_gone_on_with(tmp_path):
    path = tmp_path / "results.json"
    assert trainer._read(path, {"threads": 1})["figures"] == {}
    held = {
        "setting": {"threads": 1},
        "figures": {"tiny": {"packing_speedup": 2.0}},
        "parts": {"tiny": {"packing": {}}},
    }
    path.write_text(json.dumps(held))
    assert trainer._read(path, {"threads": 1}) == held


def test_ratios_are_medians_over_rounds():
    # 1/2, 6/3, 4/5: the second round met a busy machine on one side
    assert ratio_of([1.0, 6.0, 4.0], [2.0, 3.0, 5.0]) == 0.8
    assert ratio_of([1.0], [2.0, 30.0]) == 0.5
