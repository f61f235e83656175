from __future__ import annotations

from pathlib import Path

import pytest

from spade_gym.selfplay.recipe_file import read_recipe
from spade_gym.selfplay.settings_table import RecipeError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[agent]\ntemperature = 1" + "0" * 400, "must be from -9223372036854775807 to"),
        ("[cycle]\nseed = 1" + "0" * 5000, "no valid TOML"),
        ("[cycle]\nseed = 9223372036854775808", "must be from -9223372036854775807 to"),
        ("x = " + "[" * 5000, "no valid TOML"),
        ("a" + ".a" * 5000 + " = 1", "more than 32 deep"),
        ("[trainer.options]\n" + "a." * 900 + "a = 1", "more than 32 deep"),
        ("[agent]\ntemperature = nan", "agent temperature must be a finite number, got nan"),
        ("[reward.options]\nd = [0.5, -inf]", "reward options d[1] must be a finite number, got -inf"),
        ("[agent]\ntemperature = 1e999", "finite number, got inf"),
        ("[trainer.options]\nd = 1979-05-27", "must be a text, number, bool, list or table"),
        ("base = [1]", "must name another recipe"),
        ('base = ""', "must name another recipe"),
    ],
)
def test_values_without_end_are_errors_that_teach(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(RecipeError) as error:
        read_recipe(str(tmp_path / "a.toml"))
    assert told in str(error.value)
    assert len(str(error.value)) < 500 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("cycle.seed=1" + "0" * 5000, "Exceeds the limit"),
        ("cycle.seed=0x" + "f" * 5000, "must be from"),
        ("agent.temperature=inf", "finite"),
        ("reward.options=" + "[" * 5000, "recursion"),
        (".".join("a" * 5000) + "=1", "more than 32"),
        ("cycle.seed=1\nrollouts=5", "more than one setting"),
    ],
)
def test_settings_without_end_are_errors_that_teach(override: str, told: str) -> None:
    with pytest.raises(RecipeError) as error:
        read_recipe("recorded-demo", [override])
    assert told in str(error.value)


def test_the_largest_whole_number_is_kept() -> None:
    assert read_recipe("recorded-demo", [f"cycle.seed={2**63 - 1}"]).cycle.seed == 2**63 - 1


def test_a_file_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff")
    with pytest.raises(RecipeError, match="not UTF-8"):
        read_recipe(str(tmp_path / "a.toml"))
    with pytest.raises(RecipeError, match="cannot be read"):
        read_recipe(str(tmp_path / "b.toml"))


def test_a_base_is_looked_for_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.toml").write_text('base = "../b.toml"\n[cycle]\nplays = 2\n')
    (tmp_path / "b.toml").write_text('base = "recorded-demo"\n[cycle]\nseed = 77\n')
    cycle = read_recipe(str(tmp_path / "sub" / "a.toml")).cycle
    assert (cycle.plays, cycle.seed) == (2, 77)


@pytest.mark.parametrize(("bases", "fits"), [(10, True), (1200, False)])
def test_bases_may_be_chained_but_not_without_end(bases: int, fits: bool, tmp_path: Path) -> None:
    for place in range(bases):
        base = f"{place - 1}.toml" if place else "recorded-demo"
        (tmp_path / f"{place}.toml").write_text(f'base = "{base}"\n')
    last = str(tmp_path / f"{bases - 1}.toml")
    if fits:
        assert read_recipe(last).digest == read_recipe("recorded-demo").digest
    else:
        with pytest.raises(RecipeError, match="more than 16 bases"):
            read_recipe(last)
