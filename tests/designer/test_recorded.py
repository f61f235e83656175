from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from design_requests import game, make_request

from spade_gym.designer.attempt import read_program
from spade_gym.designer.hint_checks import answer_leak, source_leak, value_leak
from spade_gym.designer.instances import view_instances
from spade_gym.designer.recorded import RecordedDesigner, RecordedReply, read_replies, shipped_replies
from spade_gym.designer.request import DesignerError, DesignReply
from spade_gym.errors import ManifestError, PoolError
from spade_gym.in_order import in_order
from spade_gym.programs.manifest_values import MAX_HINT, MAX_TEXT
from spade_gym.programs.reply import program_from_reply
from spade_gym.testing import check_designer
from spade_gym.types import GAME_SKILLS
from spade_gym.validation.validate import validate_reply


def flaws() -> dict[str, str]:
    import spade_gym.replies

    lines = (Path(spade_gym.replies.__file__).parent / "index.jsonl").read_text("utf-8").splitlines()
    return {row["file"]: row.get("flaw", "") for row in map(json.loads, lines)}


def test_the_shipped_replies_are_many_labelled_and_some_flawed():
    replies, known = shipped_replies(), flaws()
    assert {reply.file for reply in replies} == set(known)
    assert len([flaw for flaw in known.values() if not flaw]) >= 18
    assert len([flaw for flaw in known.values() if flaw]) >= 4
    assert Counter(reply.setting for reply in replies if not known[reply.file]) == {
        "multi_turn": 13,
        "single_turn": 8,
        "tool_use": 10,
    }
    assert {reply.skill for reply in replies if reply.setting != "tool_use"} == set(GAME_SKILLS)
    check_designer(lambda: RecordedDesigner(replies))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_shipped_replies_are_accepted_unless_they_are_flawed():
    replies, known = shipped_replies(), flaws()
    verdicts = list(
        in_order(lambda reply: validate_reply(reply.text, name=reply.file, setting=reply.setting), replies, jobs=2)
    )
    accepted = {verdict.file: verdict.accepted for verdict in verdicts}
    assert accepted == {file: not flaw for file, flaw in known.items()}
    assert len({verdict.digest for verdict in verdicts if verdict.accepted}) == sum(accepted.values())


def test_every_sound_shipped_reply_brings_a_hint_and_no_flawed_one_does():
    hints = {reply.file: reply.hint for reply in shipped_replies()}
    assert {file: bool(hint) for file, hint in hints.items()} == {file: not flaw for file, flaw in flaws().items()}
    assert max(map(len, hints.values())) < 400
    written = [hint for hint in hints.values() if hint]
    assert len(set(written)) == len(written) == 31


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("reply", [reply for reply in shipped_replies() if reply.hint], ids=lambda reply: reply.file)
def test_the_shipped_hints_give_no_answer_away(reply: RecordedReply):
    program = program_from_reply(reply.text, setting=reply.setting)
    is_tool_use = program.setting == "tool_use"
    views = view_instances(program, range(8), play=is_tool_use)
    assert source_leak(reply.hint, program.source) == ""
    found = value_leak(reply.hint, views, source=program.source) if is_tool_use else answer_leak(reply.hint, views)
    assert found == ""


def test_a_hint_comes_along_into_the_manifest_unless_the_program_brings_its_own():
    recorded = RecordedReply("a.md", game("Alpha"), "single_turn", hint="Look twice.")
    (answer,) = RecordedDesigner([recorded]).write([make_request(setting="single_turn")])
    program = read_program(answer)
    assert program.manifest.hint == "Look twice."
    own = program.with_manifest(hint="Its own.")
    again = DesignReply(answer.request, "", program=own, hint="Look twice.")
    assert read_program(again).manifest.hint == "Its own."
    bare = DesignReply(answer.request, "", program=own.with_manifest(hint=""), hint="Look twice.")
    assert read_program(bare).manifest.hint == "Look twice."


def test_a_hint_may_be_longer_than_other_texts_of_an_index_but_not_endless(tmp_path: Path):
    (tmp_path / "a.md").write_text(game("Alpha"))
    index = tmp_path / "index.jsonl"
    index.write_text(json.dumps({"file": "a.md", "hint": "x" * (MAX_TEXT + 1)}))
    assert len(read_replies(tmp_path)[0].hint) == MAX_TEXT + 1
    index.write_text(json.dumps({"file": "a.md", "hint": "x" * (MAX_HINT + 1)}))
    with pytest.raises(DesignerError, match=f"at most {MAX_HINT}"):
        read_replies(tmp_path)


def test_a_folder_is_read_with_and_without_an_index(tmp_path: Path):
    (tmp_path / "a.md").write_text(game("Alpha"))
    (tmp_path / "b.txt").write_text("no program at all")
    (tmp_path / "a.md.reason.json").write_text("{}")
    assert [(reply.file, reply.setting, reply.skill) for reply in read_replies(tmp_path)] == [
        ("a.md", "single_turn", ""),
        ("b.txt", None, ""),
    ]
    row = {"file": "b.txt", "setting": "tool_use", "skill": "Error Recovery", "document": "d7", "flaw": "empty"}
    (tmp_path / "index.jsonl").write_text(json.dumps(row) + "\n\n")
    assert read_replies(tmp_path)[1] == RecordedReply(
        "b.txt", "no program at all", "tool_use", "Error Recovery", document="d7"
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 1"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "line 1"),
        ('{"skill": "x"}', "'file' is missing"),
        ('{"file": "a.md", "setting": "game_multi"}', "must be one of single_turn, multi_turn, tool_use"),
        ('{"file": "a.md", "skill": 7}', "skill must be text"),
        ('{"file": "a.md", "hint": ["x"]}', "hint must be text"),
        ('{"file": "a.md", "skill": "\\ud800"}', "lone surrogate"),
        ('{"file": "../a.md"}', "no .md or .txt file beside it"),
    ],
)
def test_a_malformed_index_is_refused(tmp_path: Path, line: str, complaint: str):
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "index.jsonl").write_text(line)
    with pytest.raises(DesignerError, match=complaint):
        read_replies(tmp_path)


def test_folders_without_replies_links_and_odd_names_are_refused(tmp_path: Path):
    with pytest.raises(DesignerError, match="no readable folder"):
        read_replies(tmp_path / "nowhere")
    with pytest.raises(DesignerError, match="no reply in"):
        read_replies(tmp_path)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.md").symlink_to(tmp_path / "secret")
    with pytest.raises(PoolError, match="symbolic link"):
        read_replies(tmp_path)
    (tmp_path / "a.md").unlink()
    (tmp_path / "\udcff.md").write_text("text")
    with pytest.raises(ManifestError, match="lone surrogate"):
        read_replies(tmp_path)


def test_a_reply_says_what_it_was_recorded_for():
    reply = RecordedReply("a.md", "text", "single_turn", "Causal Inference", "hard", "doc-3")
    (answer,) = RecordedDesigner([reply]).write([make_request()])
    assert answer.text == "text"
    assert dict(answer.origin) == {
        "kind": "recorded",
        "designer": "recorded",
        "file": "a.md",
        "setting": "single_turn",
        "skill": "Causal Inference",
        "difficulty": "hard",
        "document": "doc-3",
    }


def test_the_same_request_gets_its_own_reply_again():
    replies = [RecordedReply(f"{number}.md", f"text {number}", key=f"design/0/{number}/0") for number in range(9)]
    requests = [make_request(f"design/0/{number}/0", seed=3) for number in (5, 0, 8)]
    assert [reply.text for reply in RecordedDesigner(replies).write(requests)] == ["text 5", "text 0", "text 8"]


def test_no_fitting_reply_is_an_error_reply_and_bad_lists_are_refused():
    (answer,) = RecordedDesigner([RecordedReply("a.md", "x", "multi_turn")]).write([make_request(setting="tool_use")])
    assert (answer.text, answer.error) == ("", "no recorded reply for the setting tool_use")
    with pytest.raises(DesignerError, match="at least one"):
        RecordedDesigner([])
    with pytest.raises(DesignerError, match="same file name"):
        RecordedDesigner([RecordedReply("a.md", "x"), RecordedReply("a.md", "y")])
