from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import make_program
from families import Fixed, lengths

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum import Curriculum
from spade_gym.curriculum.generators import Listed, program_tasks
from spade_gym.curriculum.trl_rollouts import ToolRollout, TrlRollouts
from spade_gym.pool import Pool

LAMPS = """
import json


class LampsEnv(ToolUseBaseEnv):
    def __init__(self, max_turns=4, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        if {broken}:
            raise RuntimeError("no light today")
        self._state = {{"lit": []}}
        self._user_messages = ["Light the red lamp.", "Light the blue lamp."]
        self._message_criteria = [lambda state: "red" in state["lit"], lambda state: "blue" in state["lit"]]
        parameters = {{"type": "object", "properties": {{"lamp": {{"type": "string"}}}}, "required": ["lamp"]}}
        function = {{"name": "light", "description": "Light a lamp.", "parameters": parameters}}
        self._tools = [{{"type": "function", "function": function}}]
        return self._user_messages[0], {{}}

    def tool_light(self, lamp):
        if lamp == "fuse":
            raise RuntimeError("the fuse blew")
        self._state["lit"].append(lamp)
        return "lit"
"""


def begin(
    tmp_path: Path, *, name: str = "spade", broken: bool = False, size: int = 3
) -> tuple[Curriculum, TrlRollouts]:
    pool = Pool(tmp_path / "pool")
    facts = {"name": "Lamps", "setting": "tool_use", "hint": "Red first."}
    pool.add(make_program(LAMPS.format(broken=broken), "LampsEnv", **facts))
    options = {"schedule": {"num_tasks": 1, "plays": 3, "hint_plays": 3, "every": 1}} if name == "spade" else {}
    curriculum = preset.make(name, generator=Listed(program_tasks(pool)), group_size=size, **options)
    return curriculum, TrlRollouts(curriculum, group_size=3, pool=tmp_path / "pool")


def solve(rollout: ToolRollout) -> None:
    assert "Light the blue lamp." in rollout.call_tool("light", {"lamp": "red"})
    rollout.call_tool("light", {"lamp": "blue"})


def test_a_group_plays_one_ticket_and_tells_all_of_it(tmp_path: Path) -> None:
    curriculum, rollouts = begin(tmp_path)
    members = [rollouts() for _ in range(3)]
    texts = [member.reset(prompt=[]) for member in members]
    assert curriculum.num_asks == 1
    assert all(text.startswith("Light the red lamp.\n\nThe tools behind call_tool") for text in texts)
    assert '"name": "light"' in texts[0]
    solve(members[0])
    assert members[0].answer("done")
    assert json.loads(members[0].call_tool("light", {"lamp": "red"})) == {"error": "the task is over"}
    solve(members[1])  # and ends without an answer: that is "done"
    members[2].call_tool("dim", {})
    assert [member.get_reward() for member in members] == [1.0, 1.0, 0.0]
    assert [member.get_reward() for member in members] == [1.0, 1.0, 0.0]
    assert curriculum.receipts == {"counted": 3}
    (record,) = curriculum.memory
    assert record.log.outcomes().wins.tolist() == [True, True, False]
    assert record.task.setting == "tool_use"
    rollouts.close()


def test_groups_that_are_not_for_training_teach_nothing(tmp_path: Path) -> None:
    curriculum, rollouts = begin(tmp_path)
    members = [rollouts() for _ in range(3)]
    for arm in ("plain", "hint"):
        texts = [member.reset() for member in members]
        assert ["HINT: Red first." in text for text in texts] == [arm == "hint"] * 3
        solve(members[0])
        rewards = [member.get_reward() for member in members]
        assert rewards == ([1.0, 0.0, 0.0] if arm == "plain" else [0.0] * 3)
    assert curriculum.receipts == {"counted": 6}
    (record,) = curriculum.memory
    assert record.log.outcomes().with_hint.wins.tolist() == [True, False, False]
    rollouts.close()


def test_a_fault_is_rewarded_with_the_mean_of_its_group(tmp_path: Path) -> None:
    curriculum, rollouts = begin(tmp_path)
    members = [rollouts() for _ in range(3)]
    for member in members:
        member.reset()
    solve(members[0])
    members[1].call_tool("light", {"lamp": "fuse"})
    assert [member.get_reward() for member in members] == [1.0, 0.5, 0.0]
    assert curriculum.receipts == {"counted": 2, "excluded": 1}
    rollouts.close()


def test_a_program_that_cannot_be_reset_is_no_loss(tmp_path: Path) -> None:
    curriculum, rollouts = begin(tmp_path, broken=True)
    members = [rollouts() for _ in range(3)]
    assert {member.reset() for member in members} == {"(This task cannot be played.)"}
    members[0].call_tool("light", {"lamp": "red"})
    assert [member.get_reward() for member in members] == [0.0] * 3
    assert curriculum.receipts == {"excluded": 3}
    rollouts.close()


def test_plays_whose_reward_nobody_asked_for_are_given_up(tmp_path: Path) -> None:
    curriculum, rollouts = begin(tmp_path)
    members = [rollouts() for _ in range(3)]
    for member in members:
        member.reset()
    members[0].reset()  # the second group begins
    rollouts.close()
    assert curriculum.receipts == {"excluded": 6}
    assert curriculum.num_pending == 0


def test_tickets_of_another_size_or_kind_are_refused_and_given_up(tmp_path: Path) -> None:
    curriculum, rollouts = begin(tmp_path, name="plr", size=2)
    with pytest.raises(ValueError, match=r"group_size is 3, and the curriculum's ticket has 2 seeds"):
        rollouts().reset()
    assert curriculum.receipts == {"excluded": 2}
    with pytest.raises(ValueError, match="of tasks of kind 'program'"):
        TrlRollouts(Fixed(*lengths(2)), group_size=1)().reset()
    with pytest.raises(ValueError, match="group_size must be a whole number of at least 1, got 0"):
        TrlRollouts(curriculum, group_size=0)


@pytest.mark.parametrize("name", ["plr", "uniform", "sfl", "alp"])
def test_every_preset_gives_whole_groups(tmp_path: Path, name: str) -> None:
    curriculum, rollouts = begin(tmp_path, name=name)
    members = [rollouts() for _ in range(3)]
    for _ in range(4):
        for member in members:
            member.reset()
        for member in members:
            member.get_reward()
    assert curriculum.receipts == {"counted": 12}
    rollouts.close()


def test_the_public_methods_are_tools_with_schemas() -> None:
    utils = pytest.importorskip("transformers.utils")
    schemas: list[Any] = [utils.get_json_schema(tool) for tool in (ToolRollout.call_tool, ToolRollout.answer)]
    assert [schema["function"]["name"] for schema in schemas] == ["call_tool", "answer"]
    public = {name for name in vars(ToolRollout) if not name.startswith("_")}
    assert public == {"reset", "get_reward", "call_tool", "answer"}


def test_nothing_of_trl_is_imported() -> None:
    code = "import sys, spade_gym.curriculum.trl_rollouts; print({'trl', 'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
