from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from models.scripted_model import ScriptedModel, last_user_text
from selfplay.small_replies import write_replies

from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.evaluation.evaluate import Evaluation, evaluate
from spade_gym.evaluation.program_suite import ProgramSuite, find_programs
from spade_gym.evaluation.suite import SuiteError
from spade_gym.evaluation.unseen_seeds import FIRST_UNSEEN_SEED
from spade_gym.locate import locate
from spade_gym.models.base import Completion, ModelError, ModelRequest
from spade_gym.selfplay.recipe import AgentSettings

TESTS = Path(__file__).resolve().parent.parent


def suite_file(folder: Path, num: int = 4) -> str:
    path = folder / "suite.jsonl"
    rows = [{"kind": "exact", "question": f"Say {number}.", "answer": str(number)} for number in range(num)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def says(request: ModelRequest) -> str:
    """Know even numbers always, odd ones for half of the seeds."""
    number = int(last_user_text(request).split("Say ")[1].split(".")[0])
    return f"\\boxed{{{number if number % 2 == 0 or request.seed % 2 else 'x'}}}"


def figures_of(found: Evaluation) -> dict:
    kept = found.to_json()
    del kept["manifest"]["platform"]
    return kept


def test_a_model_and_a_base_on_the_same_tasks_and_seeds(tmp_path: Path) -> None:
    model, base = ScriptedModel(says, newest_first=True, batch=3), ScriptedModel(lambda request: "\\boxed{0}")
    found = evaluate(model, suite_file(tmp_path), base=base, k=8, folder=tmp_path / "e", max_in_flight=5)
    assert found.model.avg.value is not None
    right = sum(
        number % 2 == 0 or request.seed % 2 == 1
        for request in model.requests
        for number in [int(last_user_text(request).split("Say ")[1].split(".")[0])]
    )
    assert found.model.avg.value == pytest.approx(right / 32)
    assert found.base is not None
    assert found.base.avg.value == pytest.approx(0.25)
    assert found.difference is not None
    assert found.difference.avg.value == pytest.approx(right / 32 - 0.25)
    assert found.difference.num_pairs == 32
    assert [request.seed for request in model.requests] == [request.seed for request in base.requests]
    assert len({request.seed for request in model.requests}) == 32
    assert not model.closed
    manifest = json.loads((tmp_path / "e" / "manifest.json").read_text())
    assert manifest["checkpoint_rule"] == "the model as it is given"
    assert found.missing == {}


def test_the_manifest_stands_before_anything_is_sampled(tmp_path: Path) -> None:
    def look(request: ModelRequest) -> str:
        assert json.loads((tmp_path / "e" / "manifest.json").read_text())["settings"]["k"] == 2
        return "\\boxed{0}"

    evaluate(ScriptedModel(look), suite_file(tmp_path), k=2, folder=tmp_path / "e")


def test_what_was_interrupted_goes_on_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    whole = evaluate(ScriptedModel(says), suite_file(tmp_path), k=6, folder=tmp_path / "whole")
    asked: list[str] = []

    def stops(request: ModelRequest) -> str:
        if len(asked) == 10:
            raise KeyboardInterrupt
        asked.append(request.key)
        return says(request)

    with pytest.raises(KeyboardInterrupt):
        evaluate(ScriptedModel(stops), suite_file(tmp_path), k=6, folder=tmp_path / "e", max_in_flight=2)
    again = ScriptedModel(says)
    found = evaluate(again, suite_file(tmp_path), k=6, folder=tmp_path / "e", max_in_flight=2)
    assert 14 <= len(again.requests) <= 16  # those in flight were not answered
    found_again = evaluate(ScriptedModel([]), suite_file(tmp_path), k=6, folder=tmp_path / "e", max_in_flight=2)
    assert found_again.model == found.model == whole.model


def test_other_settings_tasks_or_models_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    path = suite_file(tmp_path)
    evaluate(ScriptedModel(says), path, k=2, folder=tmp_path / "e")
    with pytest.raises(StoreError, match=r"settings\.k was 2 and is 3"):
        evaluate(ScriptedModel(says), path, k=3, folder=tmp_path / "e")
    with pytest.raises(StoreError, match=r"settings\.agent\.temperature"):
        evaluate(ScriptedModel(says), path, k=2, folder=tmp_path / "e", agent=AgentSettings(temperature=1.0))
    suite_file(tmp_path, num=5)
    with pytest.raises(StoreError, match=r"suite\.digest"):
        evaluate(ScriptedModel(says), path, k=2, folder=tmp_path / "e")
    suite_file(tmp_path)
    other = ScriptedModel(says)
    other.name = "another"
    with pytest.raises(StoreError, match="another"):
        evaluate(other, path, k=2, folder=tmp_path / "e")
    with pytest.raises(StoreError, match="base was None"):
        evaluate(ScriptedModel(says), path, k=2, folder=tmp_path / "e", base=ScriptedModel(says))


def test_a_torn_last_line_is_dropped_and_any_other_damage_is_refused(tmp_path: Path) -> None:
    path, folder = suite_file(tmp_path), tmp_path / "e"
    whole = evaluate(ScriptedModel(says), path, k=3, folder=folder)
    results = folder / "results.jsonl"
    data = results.read_bytes()
    results.write_bytes(data[:-7])
    again = ScriptedModel(says)
    assert evaluate(again, path, k=3, folder=folder).model == whole.model
    assert len(again.requests) == 1
    assert sorted(results.read_bytes().splitlines()) == sorted(data.splitlines())
    for odd in (b"{}\n", b'{"arm":"model","result":{"task":0,"sample":0,"score":7,"right":true,"ended":"x"}}\n'):
        results.write_bytes(data + odd + data)
        with pytest.raises(StoreError, match="is damaged"):
            evaluate(ScriptedModel(says), path, k=3, folder=folder)


def test_links_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    path, folder = suite_file(tmp_path), tmp_path / "e"
    folder.mkdir()
    (tmp_path / "target").write_text("")
    (folder / "results.jsonl").symlink_to(tmp_path / "target")
    with pytest.raises(StoreError, match="symbolic link"):
        evaluate(ScriptedModel(says), path, k=1, folder=folder)
    (folder / "results.jsonl").unlink()
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(StoreError, match="no manifest of an evaluation"):
        evaluate(ScriptedModel(says), path, k=1, folder=folder)


def failing(every: int):
    def script(request: ModelRequest) -> str | Completion:
        if int(request.key.split("/")[2]) % every == 0:
            return Completion(request.key, "", "error", error="the server is gone")
        return says(request)

    return script


def test_a_failure_of_the_model_is_no_result_and_is_asked_again(tmp_path: Path) -> None:
    path = suite_file(tmp_path)
    found = evaluate(ScriptedModel(failing(2)), path, k=3, folder=tmp_path / "e")
    assert found.missing == {"model": (6, "the server is gone")}
    assert found.model.num_results == 6
    again = ScriptedModel(says)
    assert evaluate(again, path, k=3, folder=tmp_path / "e").missing == {}
    assert len(again.requests) == 6
    with pytest.raises(ModelError, match="16 times in a row"):
        evaluate(ScriptedModel(failing(1)), path, k=8)


def test_replies_that_are_cut_off_or_have_no_room_are_wrong(tmp_path: Path) -> None:
    path = suite_file(tmp_path)
    long = evaluate(ScriptedModel(lambda request: "x" * 50), path, k=1, agent=AgentSettings(turn_tokens=20))
    assert long.model.ended == {"cut": 4}
    assert long.model.avg.value == 0.0


def test_programs_are_played_on_instances_that_training_never_sees(tmp_path: Path) -> None:
    programs = [locate("OddCoin"), locate("RaftBalance")]
    model = ScriptedModel(lambda request: "\\boxed{weigh 1 | 2}")
    suite = ProgramSuite(programs, instances=3)
    found = evaluate(model, suite, k=2, agent=AgentSettings(max_turns=2), folder=tmp_path / "e")
    assert (found.num_tasks, found.clusters, found.model.avg.num_clusters) == (6, "programs", 2)
    assert suite.describe()["instances"] == [FIRST_UNSEEN_SEED, FIRST_UNSEEN_SEED + 1, FIRST_UNSEEN_SEED + 2]
    assert len(found.model.groups) == 2
    assert found.model.num_results == 12
    assert sum(found.model.ended.values()) == 12
    assert evaluate(ScriptedModel([]), suite, k=2, agent=AgentSettings(max_turns=2), folder=tmp_path / "e") is not None


def test_programs_are_found_by_name_in_folders_of_replies_and_in_pools(tmp_path: Path) -> None:
    assert [program.name for program in find_programs("OddCoin, spade/RaftBalance")] == ["OddCoin", "RaftBalance"]
    replies = write_replies(tmp_path / "replies" / "design" / "0" / "0")
    flat = sorted(replies.rglob("*.md"))[0].parent
    assert len(find_programs(str(flat))) == len(list(flat.glob("*.md")))
    assert len(find_programs("spade")) == 36
    (tmp_path / "empty").mkdir()
    with pytest.raises(SuiteError, match="neither entries"):
        find_programs(str(tmp_path / "empty"))
    with pytest.raises(SuiteError, match="twice"):
        ProgramSuite(find_programs("OddCoin,OddCoin"))


KILLED = """
import sys, time
sys.path.insert(0, {tests!r})
from models.scripted_model import ScriptedModel
from evaluation.test_evaluate import says
from spade_gym.evaluation.evaluate import evaluate

def slowly(request):
    time.sleep({pause})
    return says(request)

evaluate(ScriptedModel(slowly), {path!r}, base=ScriptedModel(slowly), k=10, folder={folder!r}, max_in_flight=3)
"""


def test_killed_and_started_again_it_ends_with_the_same_results(tmp_path: Path) -> None:
    path, folder = suite_file(tmp_path), tmp_path / "e"
    whole = evaluate(
        ScriptedModel(says), path, base=ScriptedModel(says), k=10, folder=tmp_path / "whole", max_in_flight=3
    )
    results = folder / "results.jsonl"
    for lines in (8, 30, 55):
        text = KILLED.format(tests=str(TESTS), path=path, folder=str(folder), pause=0.02)
        child = subprocess.Popen([sys.executable, "-c", text])
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and child.poll() is None:
            if results.exists() and results.read_bytes().count(b"\n") >= lines:
                break
            time.sleep(0.005)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    found = evaluate(ScriptedModel(says), path, base=ScriptedModel(says), k=10, folder=folder, max_in_flight=3)
    assert figures_of(found) == figures_of(whole)
    lines_of = [sorted((tmp_path / name / "results.jsonl").read_text().splitlines()) for name in ("whole", "e")]
    assert lines_of[0] == lines_of[1]
    assert len(lines_of[0]) == 82
