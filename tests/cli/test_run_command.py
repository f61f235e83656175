from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tracemalloc
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
        (("plays", "{one}", "--environment", "77"), "plays of rollout 0 of the environments 0 to 2"),
        (("plays", "{one}", "--environment", "1", "--seed", "5"), "plays of rollout 0 and environment 1 of the seeds "),
        (("plays", "{one}", "--rollout", "9" * 30), "cannot be read"),
        (("program", "{one}", "9" * 5000 + "/0"), "has no program"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(
    arguments: tuple[str, ...], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [argument.replace("{one}", str(folder / "one")) for argument in arguments]
    assert told in said(capsys, *filled, status=2)


def changed(folder: Path, into: Path, *statements: tuple[str, tuple[object, ...]]) -> str:
    """A copy of a run that a stranger made."""
    shutil.copytree(folder / "one", into)
    with contextlib.closing(sqlite3.connect(into / "run.db")) as database, database:
        for statement, values in statements:
            database.execute(statement, values)
    return str(into)


ESCAPE = "\x1b]0;pwned\x07\x1b[2J"
TEXT_COLUMNS = {
    "attempts": ("outcome", "manifest", "key"), "hints": ("text", "reason"), "notes": ("kind", "message"),
    "plays": ("digest", "fault", "ended"), "programs": ("name", "skill", "source"), "scores": ("skill", "reason"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "column"), [(name, column) for name, row in TEXT_COLUMNS.items() for column in row])
def test_what_a_stranger_wrote_does_not_reach_the_terminal(
    name: str, column: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unique = f"UPDATE {name} SET {column} = ? || {column}"
    other = changed(folder, tmp_path / "run", (unique, (ESCAPE,)))
    for arguments in (
        ("show", other),
        ("plays", other),
        ("program", other, "0/0"),
        ("diff", str(folder / "one"), other),
    ):
        main(["run", *arguments])
        captured = capsys.readouterr()
        assert "\x1b" not in captured.out + captured.err
        assert "\x07" not in captured.out + captured.err


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE plays SET environment = ?",
        "UPDATE plays SET rollout = ?",
        "UPDATE plays SET seed = ?",
        "UPDATE plays SET arm = ?",
        "UPDATE plays SET total = ?",
        "UPDATE plays SET transcript = ?",
    ],
)
def test_text_where_a_number_is_expected_is_an_error(
    statement: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = changed(folder, tmp_path / "run", (statement, (ESCAPE,)))
    text = said(capsys, "plays", other, status=2)
    assert "run.db" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("recipe", ["[1]", "5", '{"cycle": []}', '{"cycle": {"rollouts": "x"}}', "{"])
def test_a_recipe_that_is_none(recipe: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(folder, tmp_path / "run", ("UPDATE meta SET value = ? WHERE name = 'recipe'", (recipe,)))
    assert "run.db" in said(capsys, "show", other, status=2)
    assert "run.db" in said(capsys, "diff", str(folder / "one"), other, status=2)


def test_a_name_without_end_is_cut(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(folder, tmp_path / "run", ("UPDATE programs SET name = ?", ("A" * 1_000_000,)))
    for arguments in (("show", other), ("plays", other), ("program", other, "0/0")):
        assert len(said(capsys, *arguments)) < 20_000


def test_diff_summarises_long_and_binary_values(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = changed(
        folder, tmp_path / "run",
        ("UPDATE plays SET samples = ?, total = 0.125", (b"x" * 5000,)),
        ("UPDATE programs SET source = ?", ("y" * 300,)),
        ("DELETE FROM notes", ()),
        ("DELETE FROM pools WHERE epoch = 1 AND environment = 2", ()),
    )  # fmt: skip
    text = said(capsys, "diff", str(folder / "one"), other, status=1)
    assert "→ <5000 bytes>" in text
    assert "→ <300 bytes>" in text
    assert "→ 0.125" in text
    assert "pools: 1 row differs; first 1/2: only here" in text
    assert "pools: 1 row differs; first 1/2: only there" in said(capsys, "diff", other, str(folder / "one"), status=1)
    assert max(map(len, text.splitlines())) < 300


def test_looking_at_plays_and_comparing_them_holds_few_in_memory(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = changed(folder, tmp_path / "run", ("UPDATE plays SET prompt_tokens = 0 WHERE rollout > 0", ()))
    with contextlib.closing(sqlite3.connect(Path(other) / "run.db")) as database, database:
        database.execute("UPDATE plays SET samples = zeroblob(1000000) WHERE rollout > 0")  # 36 plays, 36 MB
    for arguments, status in ((("plays", other), 0), (("diff", other, str(folder / "one")), 1)):
        tracemalloc.start()
        said(capsys, *arguments, status=status)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 12_000_000


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
