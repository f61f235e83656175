from __future__ import annotations

import os
import sqlite3

import msgspec
import pytest

from spade_gym.models.base import Completion, Message, ModelError, ModelRequest, Sampling
from spade_gym.models.recorded_model import RecordedModel
from spade_gym.models.recordings import append_recording, read_recording
from spade_gym.models.sample import Sample
from spade_gym.rollout.play import Turn
from spade_gym.selfplay.run_schema import TABLES
from spade_gym.testing import check_language_model


def request(key: str) -> ModelRequest:
    return ModelRequest(key, (Message("user", "?"),), Sampling(), 0)


@pytest.fixture
def folder(tmp_path):
    for name, text in (("b", "second"), ("a", "first"), ("design/0/3/1", "third")):
        file = tmp_path / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "index.jsonl").write_text("{}\n")
    return tmp_path


def test_it_keeps_the_promises_of_a_language_model():
    completions = [Completion(str(number), f"answer {number}", "stop") for number in range(9)]
    check_language_model(RecordedModel(completions), samples=False)


def test_a_folder_of_replies_answers_by_key(folder):
    model = RecordedModel.open(folder)
    for key in ("design/0/3/1", "a"):
        model.submit(request(key))
    assert [(said.key, said.text, said.finish, said.ids) for said in model.collect()] == [
        ("design/0/3/1", "third", "stop", None),
        ("a", "first", "stop", None),
    ]
    assert model.collect() == []


def test_an_unknown_key_is_named_with_the_nearest_known_one(folder):
    with pytest.raises(ModelError, match=r"no reply to 'design/0/3/2'.*3; did you mean 'design/0/3/1'"):
        RecordedModel.open(folder).submit(request("design/0/3/2"))


def test_replies_in_order_take_the_keys_of_their_requests_until_they_are_used_up(folder):
    model = RecordedModel.open(folder, by="order")
    texts = []
    for key in ("x", "y", "z"):
        model.submit(request(key))
        texts += [(said.key, said.text) for said in model.collect()]
    assert texts == [("x", "first"), ("y", "second"), ("z", "third")]
    with pytest.raises(ModelError, match="all are used; 'w'"):
        model.submit(request("w"))


def test_another_order_is_refused(folder):
    with pytest.raises(ModelError, match="by must be 'key' or 'order'"):
        RecordedModel.open(folder, by="chance")


def test_what_was_appended_is_read_back_whole(tmp_path):
    file = tmp_path / "said.jsonl"
    first = Completion("a", "\u2028x\n", "length", (1, 2), (-0.5, -0.25), (-0.125, 0.0), 7, 2, 3, "", 1.5)
    second = Completion("b", "", "error", error="lost")
    append_recording(file, [first])
    append_recording(file, [second])
    assert read_recording(file) == {"a": first, "b": second}
    model = RecordedModel.open(file)
    model.submit(request("a"))
    assert model.collect()[0].logprobs == (-0.5, -0.25)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"key": "a", "text": "x"}\n', "line 1 is no completion.*finish"),
        ('{"key": "a", "text": "x", "finish": "stop"}\n' * 2, "line 2 repeats the key 'a'"),
        ('{"key": "a", "text": "x", "finish": "stop", "prompt_tokens": -1}\n', "said.jsonl', line 1.*prompt_tokens=-1"),
        ("\n\n", "is empty"),
        ("x", "line 1 is no completion"),
    ],
)
def test_damaged_lines_are_named(tmp_path, lines, message):
    file = tmp_path / "said.jsonl"
    file.write_text(lines)
    with pytest.raises(ModelError, match=message):
        read_recording(file)


def test_nothing_is_read_through_a_link_or_from_a_missing_place(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    inner = tmp_path / "replies"
    inner.mkdir()
    with pytest.raises(ModelError, match="is empty"):
        read_recording(inner)
    os.symlink(tmp_path / "secret.txt", inner / "a.md")
    with pytest.raises(ModelError, match="symbolic link"):
        read_recording(inner)
    with pytest.raises(ModelError, match="cannot be read"):
        read_recording(tmp_path / "nowhere")


@pytest.fixture
def run(tmp_path):
    pack = msgspec.msgpack.Encoder().encode
    turns = (Turn("o", "go 1", "1", 0.0), Turn("o", "go tw", None, 0.0))
    sample = Sample(
        ids=(5, 6, 7, 8, 9, 3, 4),
        mask=(0, 1, 1, 0, 0, 1, 1),
        logprobs=(0, -1.0, -2.0, 0, 0, -3.0, -4.0),
        kept_logprobs=(0, -0.5, -0.5, 0, 0, -0.25, -0.25),
        policy_versions=(4, 5),
    )
    written = Completion("design/0/0/0", "a program", "stop", (1,), (-1.0,), (0.0,), 3, 1)
    database = sqlite3.connect(tmp_path / "run.db")
    database.executescript(TABLES)
    insert = "INSERT INTO replies (key, text, error, completion) VALUES (?, ?, ?, ?)"
    database.execute(insert, ("design/0/0/0", "a program", "", pack(written)))
    database.execute(insert, ("design/0/1/0", "replayed", "", None))
    database.execute(insert, ("design/0/2/0", "", "the server is gone", None))
    insert = "INSERT INTO plays (key, ended, transcript, samples) VALUES (?, ?, ?, ?)"
    database.execute(insert, ("play/0/0/plain/0", "cut", pack((turns, "last")), pack((sample,))))
    database.execute(insert, ("play/0/0/hint/0", "terminated", pack((turns[:1], "last")), pack(())))
    database.commit()
    database.close()
    return tmp_path


def test_an_earlier_run_answers_for_designer_and_players(run):
    found = read_recording(run)
    assert list(found) == [
        "design/0/0/0",
        "design/0/1/0",
        "design/0/2/0",
        "play/0/0/hint/0/0",
        "play/0/0/plain/0/0",
        "play/0/0/plain/0/1",
    ]
    assert found["design/0/0/0"].ids == (1,)
    assert (found["design/0/1/0"].text, found["design/0/1/0"].finish) == ("replayed", "stop")
    assert (found["design/0/2/0"].finish, found["design/0/2/0"].error) == ("error", "the server is gone")
    assert found["play/0/0/hint/0/0"] == Completion("play/0/0/hint/0/0", "go 1", "stop")
    assert found["play/0/0/plain/0/0"] == Completion(
        "play/0/0/plain/0/0", "go 1", "stop", (6, 7), (-1.0, -2.0), (-0.5, -0.5), 1, 2, 4
    )
    assert found["play/0/0/plain/0/1"] == Completion(
        "play/0/0/plain/0/1", "go tw", "length", (3, 4), (-3.0, -4.0), (-0.25, -0.25), 5, 2, 5
    )


def test_the_database_itself_may_be_named_and_is_not_changed(run):
    before = (run / "run.db").read_bytes()
    assert len(read_recording(run / "run.db")) == 6
    assert (run / "run.db").read_bytes() == before


def test_a_damaged_database_is_refused(tmp_path):
    (tmp_path / "run.db").write_bytes(b"SQLite format 3\0" + b"x" * 200)
    with pytest.raises(ModelError, match=r"is no run\.db that this version can read"):
        read_recording(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE plays SET transcript = NULL", "Expected `bytes`, got `null`"),
        ("UPDATE plays SET samples = NULL", "Expected `bytes`, got `null`"),
        ("UPDATE plays SET transcript = 7", "Expected `bytes`, got `int`"),
        ("UPDATE plays SET transcript = x'ff'", "Expected `array`, got `int`"),
        ("UPDATE replies SET completion = 7", r"Expected `bytes \| null`, got `int`"),
        ("UPDATE replies SET text = x'00', completion = NULL", r"Expected `str \| null`, got `bytes`"),
        ("DROP TABLE plays", "no such table"),
    ],
)
def test_the_database_of_another_program_is_refused_by_name(run, change, said):
    database = sqlite3.connect(run / "run.db")
    database.execute(change)
    database.commit()
    database.close()
    with pytest.raises(ModelError, match=rf"run\.db' is no run\.db that this version can read: .*{said}"):
        read_recording(run)


def test_ids_are_demanded_where_chats_are_to_be_token_exact():
    model = RecordedModel({"a": Completion("a", "x", "stop")}, chat_format=object())
    with pytest.raises(ModelError, match="recorded without token ids"):
        model.submit(request("a"))
