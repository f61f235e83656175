import json

import pytest

from spade_gym.cli.main import main
from spade_gym.pool import Pool
from spade_gym.programs.program import Manifest, Program


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    pool = Pool(tmp_path / "pool")
    for name, setting, skill in (
        ("Coin", "multi_turn", "Logical Deduction"),
        ("Desk", "tool_use", "Error Recovery"),
        ("Apple", "single_turn", "Optimization"),
    ):
        manifest = Manifest(
            name=name,
            setting=setting,
            class_name=f"{name}Env",
            skill=skill,
            hint=f"hint of {name}",
            description="A game \x1b[2J of chance",
            commands=("go {1..3}",) if setting != "tool_use" else (),
            origin={"kind": "test", "licence": "MIT"},
            kwargs={"size": 3},
        )
        pool.add(Program(source=f"# source of {name} \x1b[31m\n", manifest=manifest))
    return str(tmp_path / "pool")


def test_list_filters_and_sorts(folder, capsys):
    assert main(["list", "--pool", folder]) == 0
    output = capsys.readouterr().out
    assert [output.index(name) for name in ("Coin", "Apple", "Desk")] == sorted(
        output.index(name) for name in ("Coin", "Apple", "Desk")
    )
    *lines, footer = output.strip().split("\n")
    assert all(len(line) <= 80 for line in lines)
    assert footer == f"3 of 3 programs; spade-gym show NAME --pool {folder} tells more"
    assert "\x1b" not in output
    assert main(["list", "--pool", folder, "--skill", "deduction"]) == 0
    assert "1 of 3" in capsys.readouterr().out
    assert main(["list", "--pool", folder, "--setting", "tool_use", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["name"], record["skill"], record["id"]) == ("Desk", "Error Recovery", "")
    assert main(["list", "--pool", folder, "--skill", "cooking"]) == 2
    assert "Logical Deduction" in capsys.readouterr().err


def test_show_hides_hint_and_source_until_asked(folder, capsys):
    assert main(["show", "Coin", "--pool", folder]) == 0
    output = capsys.readouterr().out
    for text in ("go {1..3}", "Logical Deduction", "licence: MIT", '{"size": 3}', "sum of rewards", "--hint shows it"):
        assert text in output
    assert "hint of Coin" not in output
    assert "source of" not in output
    assert main(["show", "Coin", "--pool", folder, "--hint", "--source"]) == 0
    output = capsys.readouterr().out
    assert "hint of Coin" in output
    assert "# source of Coin \\x1b[31m" in output
    assert "\x1b" not in output


def test_show_json(folder, capsys):
    assert main(["show", "Desk", "--pool", folder, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["class_name"], "hint" in record, "source" in record) == ("DeskEnv", False, False)
    assert main(["show", "Desk", "--pool", folder, "--json", "--hint", "--source"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["hint"], record["source"]) == ("hint of Desk", "# source of Desk \x1b[31m\n")


def test_a_mistyped_name_is_helped(folder, capsys):
    assert main(["show", "Coyn", "--pool", folder]) == 2
    assert "Did you mean Coin?" in capsys.readouterr().err


def test_bundled_programs_are_found_by_id_name_digest_and_path(capsys):
    assert main(["list", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)[0]
    for key in (record["name"], record["id"], "spade_gym:" + record["id"], record["digest"][:12]):
        assert main(["show", key, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["digest"] == record["digest"]


def test_a_file_is_shown_as_well(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "class MineEnv:\n    def reset(self, seed=None):\n        return 'x', {}\n"
        "    def step(self, action):\n        return 'x', 0.0, True, False, {}\n"
    )
    assert main(["show", str(tmp_path / "mine.py")]) == 0
    assert "MineEnv" in capsys.readouterr().out


def test_each_heading_stands_once_and_programs_without_a_description_say_something(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    sources = {
        "Coin": 'class CoinEnv(Base):\n    """Guess the side.\n    More."""\n',
        "Desk": "x = 1\n",
        "Apple": "y = 1\n",
    }
    for name, source in sources.items():
        setting = "tool_use" if name == "Desk" else "multi_turn"
        origin = {"file": "a.md"} if name == "Desk" else {}
        manifest = Manifest(name=name, setting=setting, class_name=f"{name}Env", origin=origin)
        Pool(tmp_path / "pool").add(Program(source=source, manifest=manifest))
    monkeypatch.chdir(tmp_path)
    assert main(["pool", "list"]) == 0
    output = capsys.readouterr().out
    assert output.count("no skill stated") == 1
    assert [text in output for text in ("Guess the side.", "not described; read from a.md")] == [True, True]
    assert output.strip().endswith("spade-gym pool show NAME tells more")


@pytest.mark.parametrize("command", ["show", "play"])
def test_a_program_that_only_the_pool_here_has_is_pointed_out(folder, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    assert main([command, "Coin"]) == 2
    text = capsys.readouterr().err
    assert "of the bundled programs" in text
    assert "site-packages" not in text
    assert "The pool 'pool' has it: add --pool pool" in text
    assert main([command, "Nowhere"]) == 2
    assert "--pool" not in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", "x" * 5000, "a/" * 3000, "\ud800", "a\0b"])
def test_a_name_that_is_no_name_is_explained(key, capsys):
    assert main(["show", key]) == 2
    assert "no program" in capsys.readouterr().err
