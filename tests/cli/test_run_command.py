from __future__ import annotations

from pathlib import Path

import pytest
from selfplay.small_runs import small_recipe, small_run

from spade_gym.cli.main import main
from spade_gym.selfplay.selfplay import selfplay


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, overrides in (("one", ()), ("two", ("cycle.seed=4",))):
        with small_run(folder / name, small_recipe(folder, *overrides)) as run:
            selfplay(run)
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["run", *arguments]) == status
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_show_tells_the_funnel_scores_and_costs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "show", str(folder / "one"))
    for word in (
        "asked",
        "parsed",
        "repaired",
        "accepted",
        "regret",
        "±",
        "rollout",
        "plain",
        "for each of 6 accepted",
    ):
        assert word in text


def test_plays_show_both_arms_of_an_instance_side_by_side(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "plays", str(folder / "one"), "--limit", "1", "--environment", "0")
    assert "[plain]" in text
    assert "[hint]" in text
    assert " │ " in text
    assert "HINT:" in text


def test_a_program_is_found_by_place_name_or_digest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_place = said(capsys, "program", str(folder / "one"), "0/0")
    assert "class" in by_place
    name, digest = by_place.splitlines()[0].split()[:2]
    assert said(capsys, "program", str(folder / "one"), name) == by_place
    assert said(capsys, "program", str(folder / "one"), digest[:10]) == by_place


def test_diff_names_settings_and_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the same rows" in said(capsys, "diff", str(folder / "one"), str(folder / "one"))
    text = said(capsys, "diff", str(folder / "one"), str(folder / "two"), status=1)
    assert "cycle.seed: 3 → 4" in text
    assert "plays: " in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "nowhere"), "there is no run in nowhere"),
        (("program", "{one}", "9/9"), "has no program '9/9'"),
        (("program", "{one}", "Sm"), "has no program 'Sm'"),
        (("plays", "{one}", "--rollout", "77"), "plays of the rollouts 0 to 3"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(
    arguments: tuple[str, ...], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [argument.replace("{one}", str(folder / "one")) for argument in arguments]
    assert told in said(capsys, *filled, status=2)


def test_dry_run_prints_the_plan_and_spends_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["selfplay", "--recipe", "paper-games-4b", "--dry-run", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "153,600" in text  # 400 rollouts x 24 environments x 16 plays
    assert "38,400" in text  # 100 windows x 24 x 16
    assert "2,400 to 12,000" in text
    assert not out.exists()


def test_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selfplay", "--list"]) == 0
    assert "recorded-demo" in capsys.readouterr().out
