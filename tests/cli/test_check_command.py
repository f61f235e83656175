import dataclasses
import json
import math
import os
import threading
import time

import pytest

from spade_gym.cli.check import run
from spade_gym.cli.check_report import REMEDIES, describe, plain, remedy_for, summarise
from spade_gym.cli.judge import Checks, judge, refusal
from spade_gym.cli.main import build_parser
from spade_gym.errors import SandboxError, SpadeError
from spade_gym.programs.program import Manifest, Program
from spade_gym.programs.reply import program_from_reply
from spade_gym.validation.finding import Finding, Verdict, failure
from spade_gym.validation.validate import CHECKS

SOURCE = """class CoinEnv:
    def reset(self, seed=None):
        return "x", {}

    def step(self, action):
        return "x", 0.0, True, False, {}
"""


def verdict(*failures, **changes):
    program = Program(source=SOURCE, manifest=Manifest(name="Coin", setting="multi_turn", class_name="CoinEnv"))
    good = Verdict("f", not failures, program.digest, "CoinEnv", (), (), failures, (), 0.5, program)
    return dataclasses.replace(good, **changes)


def judge_text(text, name="x"):
    if "bad" in text:
        return verdict(Finding("determinism", "differs", {"seed": 3, "actions": ["a", "b"]}))
    return verdict()


FAKE = Checks(program=lambda program: judge_text(program.source), reply=judge_text)


def check(*arguments, checks=FAKE):
    args = build_parser("check").parse_args(["check", *map(str, arguments)])
    return run(args, checks=checks)


def test_files_are_reported_in_order_and_all_must_be_accepted(tmp_path, capsys):
    for name, text in (("a.md", "good"), ("b.txt", "bad"), ("c.py", SOURCE)):
        (tmp_path / name).write_text(text)
    files = [tmp_path / name for name in ("c.py", "b.txt", "a.md")]
    assert check(*files) == 1
    output = capsys.readouterr().out
    assert [output.index(str(file)) for file in files] == sorted(output.index(str(file)) for file in files)
    assert "REJECTED" in output
    assert "failed determinism: differs" in output
    assert 'actions: "a", "b"' in output
    assert "what to do:" in output
    assert "3 files: 2 accepted, 1 rejected (1 determinism)" in output
    assert check(files[0], files[2]) == 0


def test_json_has_one_object_a_file_with_the_promised_keys(tmp_path, capsys):
    (tmp_path / "a.md").write_text("good")
    (tmp_path / "b.md").write_text("bad \x1b[2J")
    assert check(tmp_path / "a.md", tmp_path / "b.md", "--json", "--jobs", 2) == 1
    first, second = json.loads(capsys.readouterr().out)
    keys = ["file", "accepted", "digest", "class_name", "repairs", "adapters", "failures", "warnings", "seconds"]
    assert list(first) == keys
    assert (first["file"], first["accepted"]) == (str(tmp_path / "a.md"), True)
    assert second["failures"][0]["check"] == "determinism"
    assert second["failures"][0]["evidence"] == {"seed": 3, "actions": ["a", "b"]}


@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "utf16", "huge", "loop", "pipe", "linked entry"])
def test_what_cannot_be_read_fails_the_check_read(tmp_path, capsys, kind):
    file = tmp_path / "x.md"
    if kind == "folder":
        file.mkdir()
    elif kind == "binary":
        file.write_bytes(b"abc\0def")
    elif kind == "utf16":
        file.write_bytes("héllo".encode("utf-16"))
    elif kind == "huge":
        file.write_bytes(b"x" * (5 << 20))
    elif kind == "loop":
        file.symlink_to(file)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "linked entry":
        file.mkdir()
        (tmp_path / "secret.py").write_text(SOURCE)
        (file / "program.py").symlink_to(tmp_path / "secret.py")
        digest = verdict().digest
        (file / "manifest.toml").write_text(
            f'name = "Coin"\nsetting = "multi_turn"\nclass_name = "CoinEnv"\ndigest = "{digest}"\n'
        )
    (tmp_path / "good.md").write_text("good")
    assert check(file, tmp_path / "good.md", "--json") == 1
    bad, good = json.loads(capsys.readouterr().out)
    assert ([item["check"] for item in bad["failures"]], good["accepted"]) == (["read"], True)


def test_python_without_a_program_names_its_check(tmp_path, capsys):
    (tmp_path / "a.py").write_text("def f(:\n    pass\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    assert check(tmp_path / "a.py", tmp_path / "b.py", "--json") == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first["failures"][0]["check"] == "syntax"
    assert second["failures"][0]["check"] == "contract"


def test_an_entry_of_a_pool_is_checked_under_its_manifest(tmp_path):
    seen = []
    checks = FAKE._replace(program=lambda program: seen.append(program.manifest) or verdict())
    manifest = Manifest(name="Mine", setting="single_turn", class_name="CoinEnv", kwargs={"size": 2})
    (tmp_path / "program.py").write_text(SOURCE)
    (tmp_path / "manifest.toml").write_text(manifest.to_toml(Program(SOURCE, manifest).digest))
    assert judge(tmp_path, checks).warnings == ()
    assert judge(tmp_path / "program.py", checks).warnings == ()
    (tmp_path / "program.py").write_text(SOURCE + "# edited\n")
    (note,) = judge(tmp_path, checks).warnings
    assert (note.check, "edited" in note.message) == ("digest", True)
    assert seen == [manifest] * 3


def test_a_check_that_breaks_down_accepts_nothing_and_stops_nothing(tmp_path, capsys):
    def reply(text, name):
        if name == "a.md":
            raise ZeroDivisionError("oops")
        return verdict()

    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("text")
    files = (tmp_path / "a.md", tmp_path / "b.md")
    assert check(*files, "--json", checks=FAKE._replace(reply=reply)) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["failures"][0]["check"], second["accepted"]) == ("internal", True)
    with pytest.raises(ZeroDivisionError):
        check(*files, "--debug", checks=FAKE._replace(reply=reply))


def test_a_broken_sandbox_says_nothing_about_programs(tmp_path):
    def reply(text, name):
        raise SandboxError("no jail")

    (tmp_path / "a.md").write_text("text")
    with pytest.raises(SandboxError):
        check(tmp_path / "a.md", checks=FAKE._replace(reply=reply))


def test_jobs_run_side_by_side(tmp_path):
    barrier = threading.Barrier(2, timeout=20)

    def reply(text, name):
        barrier.wait()
        time.sleep(0.01 if name == "b.md" else 0.1)
        return verdict()

    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("text")
    assert check(tmp_path / "a.md", tmp_path / "b.md", "--jobs", 2, checks=FAKE._replace(reply=reply)) == 0


def test_rejected_files_are_kept_with_their_reasons(tmp_path):
    for folder, text in (("one", "bad 1"), ("two", "bad 2"), ("three", "good")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.md").write_text(text)
    kept = tmp_path / "kept"
    arguments = [*sorted(tmp_path.glob("*/x.md")), tmp_path / "gone.md", "--keep-rejected", kept]
    for _ in range(2):
        assert check(*arguments) == 1
        names = sorted(path.name for path in kept.iterdir())
        assert len(names) == 5
    texts = sorted(path.read_text() for path in kept.iterdir() if not path.name.endswith(".json"))
    assert texts == ["bad 1", "bad 2"]
    reason = json.loads((kept / "x.md.reason.json").read_text())
    assert reason["failures"][0]["check"] == "determinism"
    assert json.loads((kept / "gone.md.reason.json").read_text())["failures"][0]["check"] == "read"


def test_what_is_kept_of_rejected_files_is_whole_or_absent(tmp_path, monkeypatch):
    (tmp_path / "x.md").write_text("bad")
    kept = tmp_path / "kept"

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(SpadeError, match=r"x\.md cannot be kept in .*kept: No space"):
        check(tmp_path / "x.md", "--keep-rejected", kept)
    assert list(kept.iterdir()) == []


def test_the_length_of_cut_evidence_is_the_true_one():
    finding = failure("reward", "pays", action="y" * 5008, short="z" * 400, actions=["\x1b" * 650] * 100)
    text = " ".join(describe(verdict(finding), columns=80).split())
    assert "... (5008 characters)" in text
    assert "... (400 characters)" in text
    assert "(650 characters)" in text
    assert "(100 in all;" in text
    assert "621" not in text


def test_a_reply_that_was_cut_off_is_asked_for_again(tmp_path, capsys):
    (tmp_path / "a.md").write_text(f"```python\n{SOURCE}        return (1,\n")
    (tmp_path / "b.md").write_text(f"```python\n{SOURCE}        return (1,\n```\n")

    def reply(text, name):
        return verdict() if program_from_reply(text) else None

    checks = FAKE._replace(reply=reply)
    assert check(tmp_path / "a.md", checks=checks) == 1
    output = capsys.readouterr().out
    assert "Ask for the reply again" in output
    assert "Mend the line" not in output
    assert check(tmp_path / "b.md", checks=checks) == 1
    assert "Mend the line" in capsys.readouterr().out


def test_nothing_in_a_verdict_reaches_the_terminal_raw(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    evil = "\x1b]0;title\x07\u202e"
    finding = Finding(evil, evil, {evil: [evil, {"a": evil}], "n": math.nan, "long": "y" * 5000})
    text = describe(verdict(finding, file=evil, class_name=evil, repairs=(evil,)), columns=80)
    text += summarise([verdict(finding)])
    assert not set("\x1b\x07\u202e") & set(text)
    assert all(len(line) <= 80 or "\\x1b" in line for line in text.split("\n"))


def test_plain_makes_json_of_anything():
    class Odd:
        def __str__(self):
            return "odd"

    value = {1: (math.inf, None, True), "x": {Odd()}}
    assert plain(value) == {"1": ["inf", None, True], "x": ["odd"]}


def test_every_check_has_a_remedy():
    names = {check.name for check in CHECKS} | {"read", "extract", "syntax", "contract", "internal"}
    assert names <= set(REMEDIES)
    assert remedy_for("unheard of")


def test_a_refusal_is_rejected():
    assert not refusal("read", "x").accepted
