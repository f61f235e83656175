import hashlib
import importlib.util
import json
import os
import sys

import pytest

from spade_gym.errors import PoolError
from spade_gym.pool import Pool
from spade_gym.pool_export import export_pool
from spade_gym.pool_import import import_pool
from spade_gym.pool_records import program_name, read_record
from spade_gym.programs.program import Manifest, Program

GAME = """import random


class {name}Env:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.secret = random.Random(seed).randint(1, 9)
        return "Say \\\\boxed{{guess N}} with N from 1 to 9.", {{}}

    def step(self, action):
        won = action == "\\\\boxed{{guess " + str(self.secret) + "}}"
        return "ok", float(won), won, False, {{}}
"""


def game(name):
    return GAME.format(name=name)


def publish(folder, files, *, rows=None, checksums=None, games=""):
    """Write a published pool: files is name -> source."""
    folder.mkdir()
    (folder / games).mkdir(exist_ok=True)
    prefix = f"{games}/" if games else ""
    for name, source in files.items():
        (folder / games / name).write_bytes(source.encode())
    rows = [{"file": prefix + name} for name in files] if rows is None else rows
    (folder / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if checksums is None:
        checksums = {prefix + name: hashlib.sha256(source.encode()).hexdigest() for name, source in files.items()}
    (folder / "checksums.sha256").write_text("".join(f"{value}  {name}\n" for name, value in checksums.items()))
    return folder


def refusals(results):
    return {result.entry: result.message for result in results if not result.accepted}


def test_the_published_form_with_its_metadata(tmp_path):
    row = {
        "file": "game_1.py",
        "env_name": "coin-flip env",
        "skill": "logical_deduction",
        "difficulty": "Hard",
        "type": "multi-turn",
        "hint": "Think.",
        "win_rate": 0.25,
        "description": "Guess  a\nnumber.",
        "max_turns": 7,
    }
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")}, rows=[row])
    pool = Pool(tmp_path / "pool")
    (result,) = import_pool(source, pool)
    assert (result.entry, result.accepted, result.name, result.message) == ("game_1.py", True, "CoinFlip", "")
    program = pool.get("CoinFlip")
    manifest = program.manifest
    assert program.digest == result.digest
    assert (manifest.skill, manifest.difficulty, manifest.setting) == ("Logical Deduction", "hard", "multi_turn")
    assert (manifest.hint, manifest.max_turns, manifest.reward) == ("Think.", 7, "sum")
    assert manifest.description == "Guess a number."
    assert manifest.origin["win_rate"] == "0.25"
    assert manifest.origin["kind"] == "imported"
    assert manifest.class_name == "CoinEnv"


def test_the_released_layout_with_a_folder_of_games(tmp_path):
    name = "game_00012_003_causal_inference.py"
    for number, row in enumerate(({"file": f"games/{name}"}, {"filename": name}, {"path": f"./games/{name}"})):
        source = publish(tmp_path / f"in{number}", {name: game("Coin")}, rows=[row], games="games")
        pool = Pool(tmp_path / f"pool{number}")
        (result,) = import_pool(source, pool)
        assert result.accepted, result.message
        assert pool.get("Coin").manifest.skill == "Causal Inference"


@pytest.mark.parametrize(("rule", "expected"), [("last", "last"), ("last_step", "last"), ("sum", "sum"), (0.7, "sum")])
def test_the_reward_rule_is_only_last_when_the_manifest_says_so(tmp_path, rule, expected):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")}, rows=[{"file": "game_1.py", "reward": rule}])
    pool = Pool(tmp_path / "pool")
    import_pool(source, pool)
    assert pool.get("Coin").manifest.reward == expected


def test_importing_twice_changes_nothing(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin"), "game_2.py": game("Dice")})
    pool = Pool(tmp_path / "pool")
    import_pool(source, pool)
    before = sorted(os.listdir(pool.path))
    again = import_pool(source, pool)
    assert [(item.accepted, item.message) for item in again] == [(True, "already in the pool")] * 2
    assert sorted(os.listdir(pool.path)) == before


def test_a_wrong_or_missing_checksum_refuses_that_entry_only(tmp_path):
    good = hashlib.sha256(game("Coin").encode()).hexdigest()
    source = publish(
        tmp_path / "in",
        {"game_1.py": game("Coin"), "game_2.py": game("Dice"), "game_3.py": game("Card")},
        checksums={"game_1.py": good, "game_2.py": good},
    )
    results = import_pool(source, Pool(tmp_path / "pool"))
    assert [result.accepted for result in results] == [True, False, False]
    found = refusals(results)
    assert "does not match checksums.sha256" in found["game_2.py"]
    assert "no line in checksums.sha256" in found["game_3.py"]


def test_two_checksums_of_one_file_are_none(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")})
    with open(source / "checksums.sha256", "a") as file:
        file.write("0" * 64 + " *game_1.py\n")
    assert not import_pool(source, Pool(tmp_path / "pool"))[0].accepted


def test_files_that_only_one_list_knows_are_refused(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")}, rows=[])
    with open(source / "checksums.sha256", "a") as file:
        file.write("0" * 64 + "  game_9.py\n")
    found = refusals(import_pool(source, Pool(tmp_path / "pool")))
    assert "not listed" in found["game_1.py"]
    assert "not in the folder" in found["game_9.py"]


@pytest.mark.parametrize(
    "name",
    ["../secret.py", "/etc/passwd", "games/../../secret.py", "..\\secret.py", "C:x.py", "a\0b", "link.py", "d/x.py"],
)
def test_no_path_leaves_the_folder(tmp_path, name):
    (tmp_path / "secret.py").write_text(game("Secret"))
    digest = hashlib.sha256((tmp_path / "secret.py").read_bytes()).hexdigest()
    source = publish(tmp_path / "in", {}, rows=[{"file": name}], checksums={})
    (source / "checksums.sha256").write_text(f"{digest}  {name}\n" if "\0" not in name else "")
    (source / "link.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.py").write_text(game("Secret"))
    (source / "d").symlink_to(tmp_path / "outside")
    (result,) = import_pool(source, Pool(tmp_path / "pool"))
    assert not result.accepted
    assert "refused" in result.message


@pytest.mark.parametrize("name", ["game_\ud800.py", "g" * 5000, "nowhere.py", "", 7, None])
def test_strange_file_names_are_refused_by_line(tmp_path, name):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")}, rows=[{"file": "game_1.py"}, {"file": name}])
    results = import_pool(source, Pool(tmp_path / "pool"))
    assert [result.accepted for result in results] == [True, False]


def test_bad_lines_are_refused_and_good_ones_imported(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin"), "game_2.py": "x = (\n"})
    lines = (source / "manifest.jsonl").read_text() + "{not json\n[1]\n\n" + "[" * 100_000 + "\n"
    (source / "manifest.jsonl").write_text(lines)
    results = import_pool(source, Pool(tmp_path / "pool"))
    assert [result.accepted for result in results] == [True, False, False, False, False]
    assert "line 3" in results[2].message
    assert "no JSON object" in results[3].message


def test_a_published_pool_without_checksums_is_refused_as_a_whole(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")})
    (source / "checksums.sha256").unlink()
    with pytest.raises(PoolError, match=r"no checksums\.sha256"):
        import_pool(source, Pool(tmp_path / "pool"))
    (source / "checksums.sha256").write_text("hello\n")
    with pytest.raises(PoolError, match="line 1"):
        import_pool(source, Pool(tmp_path / "pool"))


def test_a_manifest_that_was_changed_is_refused_as_a_whole(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")})
    with open(source / "checksums.sha256", "a") as file:
        file.write("0" * 64 + "  manifest.jsonl\n")
    with pytest.raises(PoolError, match=r"manifest\.jsonl.*does not match"):
        import_pool(source, Pool(tmp_path / "pool"))


def test_jsonl_with_code_replies_and_chats(tmp_path):
    rows = [
        {"source": "gpt", "code": game("Coin"), "skill": "Optimization"},
        {"completion": f"<think>hm</think>Here:\n```python\n{game('Dice')}```\n"},
        {
            "messages": [
                {"role": "user", "content": "write"},
                {"role": "assistant", "content": f"```python\n{game('Card')}```"},
            ]
        },
        {"code": f"```python\n{game('Rope')}```"},
        {"prompt": "nothing here"},
        {"code": "def f(:\n  pass\n"},
    ]
    file = tmp_path / "pool.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pool = Pool(tmp_path / "pool")
    results = import_pool(file, pool)
    assert [result.accepted for result in results] == [True, True, True, True, False, False]
    assert pool.names() == ("Card", "Coin", "Dice", "Rope")
    assert pool.get("Coin").manifest.origin["source"] == "gpt"
    assert "no program text" in results[4].message
    assert results[5].entry == "pool.jsonl line 6"


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow (extra parquet)")
def test_parquet(tmp_path):
    import pyarrow
    from pyarrow import parquet

    rows = [{"code": game("Coin"), "skill": "Optimization"}, {"code": None, "skill": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "pool.parquet")
    results = import_pool(tmp_path / "pool.parquet", Pool(tmp_path / "pool"))
    assert [result.accepted for result in results] == [True, False]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(PoolError, match="no readable Parquet"):
        import_pool(tmp_path / "bad.parquet", Pool(tmp_path / "pool"))


def test_parquet_without_pyarrow_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "pool.parquet").write_bytes(b"PAR1")
    with pytest.raises(PoolError, match=r"spade-gym\[parquet\]"):
        import_pool(tmp_path / "pool.parquet", Pool(tmp_path / "pool"))


@pytest.mark.parametrize("kind", ["missing", "empty folder", "text file", "games folder"])
def test_what_is_no_pool_is_explained(tmp_path, kind):
    source = tmp_path / "source"
    if kind == "empty folder":
        source.mkdir()
    elif kind == "text file":
        source.write_text("hello")
    elif kind == "games folder":
        source = publish(source, {"game_1.py": game("Coin")}, games="games") / "games"
    match = {"missing": "nothing at", "games folder": "Its parent folder"}.get(kind, "none of the forms")
    with pytest.raises(PoolError, match=match):
        import_pool(source, Pool(tmp_path / "pool"))


def test_a_check_refuses_with_its_reason_and_is_not_asked_twice(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin"), "game_2.py": game("Dice")})
    pool = Pool(tmp_path / "pool")
    asked = []

    def check(program):
        asked.append(program.name)
        return "too dull" if program.name == "Dice" else None

    results = import_pool(source, pool, check=check, jobs=2)
    assert [(item.accepted, item.message) for item in results] == [(True, ""), (False, "too dull")]
    import_pool(source, pool, check=check)
    assert sorted(asked) == ["Coin", "Dice", "Dice"]


def filled_pool(path):
    pool = Pool(path)
    first = Manifest(
        name="Coin",
        setting="multi_turn",
        class_name="CoinEnv",
        skill="Optimization",
        hint='Say "no" — ≤ 3',
        commands=("guess {1..9}",),
        kwargs={"size": 3, "nested": {"a": [1, 2]}},
        reward="last",
        repairs=("brace_repair",),
        adapters=("observation_only",),
        origin={"kind": "test", "licence": "MIT"},
        max_turns=5,
    )
    pool.add(Program(source=game("Coin"), manifest=first))
    pool.add(
        Program(
            source=game("Dice") + "# é\r\n", manifest=Manifest(name="Dice", setting="tool_use", class_name="DiceEnv")
        )
    )
    return pool


@pytest.mark.parametrize("form", ["folder", "jsonl", "published"])
def test_export_and_import_give_the_same_programs_and_the_same_bytes(tmp_path, form):
    pool = filled_pool(tmp_path / "pool")
    target = tmp_path / ("out.jsonl" if form == "jsonl" else "out")
    assert export_pool(pool, target, form) == 2
    copy = Pool(tmp_path / "copy")
    assert all(result.accepted and not result.message for result in import_pool(target, copy))
    assert list(copy) == list(pool)
    again = target.with_name("again.jsonl" if form == "jsonl" else "again")
    export_pool(copy, again, form)
    assert contents(again) == contents(target)
    assert [name for name in os.listdir(tmp_path) if name.startswith(".tmp")] == []


def contents(path):
    if path.is_file():
        return path.read_bytes()
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_tampered_export_is_noticed(tmp_path):
    pool = filled_pool(tmp_path / "pool")
    export_pool(pool, tmp_path / "out.jsonl", "jsonl")
    text = (tmp_path / "out.jsonl").read_text().replace("randint(1, 9)", "randint(1, 1)")
    (tmp_path / "out.jsonl").write_text(text)
    results = import_pool(tmp_path / "out.jsonl", Pool(tmp_path / "copy"))
    assert not any(result.accepted for result in results)
    assert "digest" in results[0].message


def test_export_overwrites_nothing(tmp_path):
    pool = filled_pool(tmp_path / "pool")
    (tmp_path / "out").mkdir()
    with pytest.raises(PoolError, match="exists"):
        export_pool(pool, tmp_path / "out")
    with pytest.raises(PoolError, match="folder, jsonl, published"):
        export_pool(pool, tmp_path / "new", "zip")


def test_an_own_manifest_with_unknown_fields_is_refused():
    with pytest.raises(PoolError, match="no manifest"):
        read_record({"spade_gym": {"name": "Coin", "bad": 1}}, where="line 1")
    with pytest.raises(PoolError, match="must be an object"):
        read_record({"spade_gym": 3}, where="line 1")


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("OddCoinEnv", "OddCoin"),
        ("spade/odd-coin env-v0", "OddCoin"),
        ("3 jugs", None),
        ("Env", "Env"),
        ("日本", None),
        ("LightsOutEnvironment", "LightsOut"),
    ],
)
def test_program_name(title, name):
    assert program_name(title) == name


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"skill": "\ud800"}, "surrogate"),
        ({"win_rate": "\udfff"}, "surrogate"),
        ({"max_turns": 10**9}, "max_turns"),
        ({"kwargs": {"a": 1 << 64}}, "64 bits"),
        ({"kwargs": {"a": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}}, "deep"),
        ({"hint": "x" * 100_000}, "hint"),
        ({"commands": ["x"] * 5_000}, "commands"),
    ],
)
def test_a_value_that_no_manifest_takes_refuses_that_entry_only(tmp_path, changes, reason):
    rows = [{"file": "game_1.py", **changes}, {"file": "game_2.py"}]
    source = publish(tmp_path / "in", {"game_1.py": game("Coin"), "game_2.py": game("Dice")}, rows=rows)
    results = import_pool(source, Pool(tmp_path / "pool"))
    assert [result.accepted for result in results] == [False, True]
    assert reason in results[0].message


def test_a_damaged_neighbour_does_not_stop_an_import(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")})
    (tmp_path / "pool" / "odd" / "manifest.toml").mkdir(parents=True)
    (result,) = import_pool(source, Pool(tmp_path / "pool"))
    assert result.accepted
    (tmp_path / "copy").mkdir()
    results = import_pool(tmp_path / "pool", Pool(tmp_path / "copy"))
    assert sorted(item.accepted for item in results) == [False, True]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_manifest_that_is_a_named_pipe_does_not_hang(tmp_path):
    source = publish(tmp_path / "in", {"game_1.py": game("Coin")})
    (source / "manifest.jsonl").unlink()
    os.mkfifo(source / "manifest.jsonl")
    with pytest.raises(PoolError, match="named pipe"):
        import_pool(source, Pool(tmp_path / "pool"))


def test_paths_that_are_none_are_named(tmp_path):
    with pytest.raises(TypeError, match="source of an import"):
        import_pool(None, Pool(tmp_path))
    with pytest.raises(TypeError, match="target of an export"):
        export_pool(filled_pool(tmp_path / "pool"), 5)
    with pytest.raises(PoolError, match="lies in the pool"):
        export_pool(Pool(tmp_path / "pool"), tmp_path / "pool" / "out")
