import json

import pytest

from spade_gym.cli.judge import Checks
from spade_gym.cli.main import build_parser, main
from spade_gym.cli.pool import run
from spade_gym.pool import Pool
from spade_gym.validation.finding import Finding, Verdict

SOURCE = """class {name}Env:
    def reset(self, seed=None):
        return "Say \\\\boxed{{go}}.", {{}}

    def step(self, action):
        return "x", 1.0, True, False, {{}}
"""


def judge_program(program):
    bad = "Bad" in program.name
    failures = (Finding("reward", "pays too much", {"seed": 1}),) if bad else ()
    manifest = program.manifest
    return Verdict(program.name, not bad, program.digest, manifest.class_name, (), (), failures, (), 0.1, program)


def judge_reply(text, name):
    from spade_gym.programs.reply import program_from_reply

    return judge_program(program_from_reply(text))


FAKE = Checks(program=judge_program, reply=judge_reply)


def pool_command(*arguments, checks=FAKE):
    return run(build_parser("pool").parse_args(["pool", *map(str, arguments)]), checks=checks)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "coin.py").write_text(SOURCE.format(name="Coin"))
    (tmp_path / "bad.py").write_text(SOURCE.format(name="Bad"))
    (tmp_path / "dice.md").write_text(f"Here:\n```python\n{SOURCE.format(name='Dice')}```\n")
    return tmp_path


def test_add_keeps_accepted_programs_and_says_why_not(files, capsys):
    where = ("--pool", files / "pool")
    assert pool_command("add", files / "coin.py", files / "bad.py", files / "dice.md", *where) == 1
    output = capsys.readouterr().out
    assert output.count("added") == 2
    assert "failed reward: pays too much" in output
    assert Pool(files / "pool").names() == ("Coin", "Dice")
    assert pool_command("add", files / "coin.py", *where) == 0
    assert "there already" in capsys.readouterr().out


def test_add_unchecked_takes_what_is_a_program(files, capsys):
    (files / "broken.py").write_text("def (")
    arguments = (
        "add",
        files / "bad.py",
        files / "dice.md",
        files / "broken.py",
        "--unchecked",
        "--pool",
        files / "pool",
    )
    assert pool_command(*arguments, checks=None) == 1
    assert Pool(files / "pool").names() == ("Bad", "Dice")
    assert "failed syntax" in capsys.readouterr().out


def test_add_labels_a_program_and_replaces_only_when_told(files, capsys):
    where = ("--pool", files / "pool")
    assert pool_command("add", files / "coin.py", "--name", "Mine", "--skill", "Optimization", *where) == 0
    manifest = Pool(files / "pool").get("Mine").manifest
    assert (manifest.skill, manifest.class_name) == ("Optimization", "CoinEnv")
    assert pool_command("add", files / "coin.py", "--setting", "tool_use", *where) == 0
    assert "--replace" in capsys.readouterr().out
    assert Pool(files / "pool").names() == ("Mine",)
    assert pool_command("add", files / "coin.py", "--setting", "tool_use", "--replace", *where) == 0
    assert Pool(files / "pool").get("Coin").setting == "tool_use"


def test_add_refuses_one_name_for_two_files_and_a_bad_name(files, capsys):
    arguments = ["pool", "add", str(files / "coin.py"), str(files / "dice.md"), "--unchecked", "--name", "X"]
    assert main([*arguments, "--pool", str(files / "pool")]) == 2
    assert "one at a time" in capsys.readouterr().err
    assert pool_command("add", files / "coin.py", "--name", "no good", "--pool", files / "pool") == 1
    assert "name must be a word" in capsys.readouterr().out


def test_export_import_and_verify(files, capsys):
    pool = files / "pool"
    pool_command("add", files / "coin.py", files / "dice.md", "--pool", pool)
    for form, target in (("folder", "out"), ("published", "pub"), ("jsonl", "out.jsonl")):
        assert main(["pool", "export", str(files / target), "--form", form, "--pool", str(pool)]) == 0
        assert pool_command("import", files / target, "--pool", files / f"copy-{form}") == 0
        assert list(Pool(files / f"copy-{form}")) == list(Pool(pool))
    capsys.readouterr()
    assert main(["pool", "verify", "--pool", str(pool)]) == 0
    assert "2 entries, 0 damaged" in capsys.readouterr().out
    digest = Pool(pool).get("Coin").digest
    (pool / digest / "program.py").write_text("\x1b[2J")
    assert main(["pool", "verify", "--json", "--pool", str(pool)]) == 1
    assert json.loads(capsys.readouterr().out)["damages"][0]["entry"] == digest
    assert main(["pool", "list", "--pool", str(pool)]) == 1
    output = capsys.readouterr()
    assert "edited" in output.err
    assert "Dice" in output.out


def test_import_checks_by_default_and_names_what_it_refuses(files, capsys):
    pool_command("add", files / "coin.py", files / "bad.py", "--unchecked", "--pool", files / "pool", checks=None)
    main(["pool", "export", str(files / "out.jsonl"), "--pool", str(files / "pool")])
    capsys.readouterr()
    assert pool_command("import", files / "out.jsonl", "--pool", files / "copy", "--jobs", 2) == 1
    output = capsys.readouterr().out
    assert "failed reward: pays too much" in output
    assert "2 entries: 1 imported (checked), 0 there already, 1 refused" in output
    assert main(["pool", "import", str(files / "out.jsonl"), "--unchecked", "--pool", str(files / "copy")]) == 0
    assert "2 entries: 1 imported (unchecked), 1 there already, 0 refused" in capsys.readouterr().out


def test_a_check_that_breaks_down_imports_nothing(files, capsys):
    def program(program):
        raise ZeroDivisionError

    pool_command("add", files / "coin.py", "--pool", files / "pool")
    arguments = ("import", files / "pool", "--pool", files / "copy")
    assert pool_command(*arguments, checks=FAKE._replace(program=program)) == 1
    assert "failed internal" in capsys.readouterr().out


def test_list_and_show_of_a_pool(files, capsys):
    pool_command("add", files / "coin.py", "--skill", "Optimization", "--pool", files / "pool")
    capsys.readouterr()
    assert main(["pool", "list", "--pool", str(files / "pool"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "Coin"
    assert main(["pool", "show", "Coin", "--pool", str(files / "pool")]) == 0
    assert "Optimization" in capsys.readouterr().out
    assert main(["pool", "show", "Nope", "--pool", str(files / "pool")]) == 2


def test_the_pool_is_named_by_the_environment_or_lies_here(files, monkeypatch, capsys):
    monkeypatch.setenv("SPADE_GYM_POOL", str(files / "elsewhere"))
    assert pool_command("add", files / "coin.py") == 0
    assert len(Pool(files / "elsewhere")) == 1
    monkeypatch.delenv("SPADE_GYM_POOL")
    monkeypatch.chdir(files)
    assert pool_command("add", files / "coin.py") == 0
    assert len(Pool(files / "pool")) == 1
    assert main(["pool", "verify", "--pool", "nowhere"]) == 2
    assert "no readable pool" in capsys.readouterr().err
