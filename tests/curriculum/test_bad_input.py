"""What a user may get wrong, and what the message must name: the field, the value, and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from families import lengths, walk
from runs import SPACE, make, outcomes_of, play

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_env import CurriculumEnv, outcome_of
from spade_gym.curriculum.gates import NotIn
from spade_gym.curriculum.generators import Listed, Parameters, SlidingDifficulty
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.memory_file import export_memory, import_memory
from spade_gym.curriculum.samplers import Best, Exp3, Prioritised, Proportional
from spade_gym.curriculum.schedules import FillThenReplay, Replay, Rounds, ScreenThenTrain
from spade_gym.curriculum.score import Unknown
from spade_gym.curriculum.space_gate import SameSpaces
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.curriculum.task_environments import TaskEnvironments

WRONG_SETTINGS = [
    (lambda: Memory(0), "capacity must be a whole number of at least 1, got 0"),
    (lambda: Memory("200"), "capacity must be a whole number of at least 1, got '200'"),  # type: ignore[arg-type]
    (lambda: Memory(2.5), "capacity must be a whole number"),  # type: ignore[arg-type]
    (lambda: Memory(True), "capacity must be a whole number"),
    (lambda: Memory(plays_kept=-1), "plays_kept must be a whole number of at least 1, got -1"),
    (lambda: Memory(eviction="newest"), "eviction must be one of oldest, lowest-support, lowest-score, got 'newest'"),  # type: ignore[arg-type]
    (lambda: Replay(replay_probability=1.5), "replay_probability must be from 0 to 1, got 1.5"),
    (lambda: Replay(replay_probability="half"), "replay_probability must be from 0 to 1, got 'half'"),  # type: ignore[arg-type]
    (lambda: Replay(min_records=0), "min_records must be a whole number of at least 1, got 0"),
    (lambda: Replay(plays_of_new=0), "plays_of_new must be a whole number of at least 1"),
    (lambda: Replay(train_new="no"), "train_new must be true or false, got 'no'"),  # type: ignore[arg-type]
    (lambda: Replay(mutate=1), "mutate must be true or false, got 1"),  # type: ignore[arg-type]
    (lambda: FillThenReplay(num_tasks=0), "num_tasks must be a whole number of at least 1, got 0"),
    (lambda: ScreenThenTrain(train_asks=0), "train_asks must be a whole number of at least 1, got 0"),
    (lambda: Rounds(plays=None), "plays must be a whole number of at least 1, got None"),  # type: ignore[arg-type]
    (lambda: Rounds(hint_plays=-1), "hint_plays must be a whole number of at least 0, got -1"),
    (lambda: Prioritised(temperature=0), "temperature must be greater than 0, got 0"),
    (lambda: Prioritised(temperature=float("nan")), "temperature must be greater than 0, got nan"),
    (lambda: Prioritised(staleness=[0.1]), r"staleness must be from 0 to 1, got \[0.1\]"),  # type: ignore[arg-type]
    (lambda: Proportional(exploration=-0.1), "exploration must be from 0 to 1, got -0.1"),
    (lambda: Best(count=0), "count must be a whole number of at least 1, got 0"),
    (lambda: Exp3(exploration=0), "exploration must be greater than 0, got 0"),
    (lambda: Exp3(step=float("inf")), "step must be greater than 0, got inf"),
    (lambda: make_with(return_range=(0, float("inf"))), r"return_range must be a finite \(low, high\) with low < high"),
    (lambda: make_with(return_range=5), r"return_range must be a finite \(low, high\) with low < high, got 5"),
    (lambda: make_with(return_range=("0", "1")), "return_range must be a finite"),
    (lambda: make_with(group_size=0), "group_size must be a whole number of at least 1, got 0"),
    (lambda: make_with(memory={"capacity": "many"}), "capacity must be a whole number of at least 1, got 'many'"),
    (lambda: make_with(memory={"capacty": 9}), "unknown option of the memory 'memory' 'capacty'; did you mean"),
    (lambda: make_with(schedule={"name": "weekly"}), "unknown schedule 'weekly'.*Known: always-new, fill-then-replay"),
    (lambda: make_with(generator={"name": "parametres"}), "unknown generator 'parametres'; did you mean 'parameters'"),
    (lambda: make_with(generator={"name": "parameters", "range": {}}), "unknown option of the generator 'parameters'"),
    (lambda: make_with(seed="7"), "seed must be a whole number of at least 0, got '7'"),
    (lambda: make_with(scorer="alp"), "scorer must be a table of options, .*got 'alp'"),
    (lambda: preset.make("PLR"), "unknown preset 'PLR'; did you mean 'plr'"),
    (lambda: Parameters({}), "ranges must be a mapping of at least one parameter to its range, got {}"),
    (lambda: Parameters({"x": 4.0}), r"the range of 'x' must be a \(low, high\) tuple of numbers or a list .* got 4.0"),  # type: ignore[dict-item]
    (lambda: Parameters({"x": (4.0, "9")}), "the range of 'x' must be"),
    (lambda: Parameters({"x": (9, 4)}), "the range of 'x' must be"),
    (lambda: Parameters({"x": "abc"}), "the range of 'x' must be"),
    (lambda: Parameters({"x": (0, 9)}, kind="attr"), "kind must be one of program, make, reset, attribute, got 'attr'"),  # type: ignore[arg-type]
    (lambda: Listed([]), r"tasks must be at least one Task, got \[\]"),
    (lambda: Listed([1]), "tasks must be at least one Task, got 1"),  # type: ignore[list-item]
    (lambda: SlidingDifficulty(accuracy=9), "accuracy must be from 0 to 1, got 9"),
    (lambda: SlidingDifficulty(width=0), "width must be a whole number of at least 1, got 0"),
    (lambda: SlidingDifficulty(low=3, high=2), "high must be a whole number of at least 3, got 2"),
    (lambda: CurriculumEnv(walk, lengths(1), evaluation="yes"), "evaluation must be true or false, got 'yes'"),  # type: ignore[arg-type]
    (lambda: CurriculumEnv(walk, make_with(), success="1"), r"success must be a function of \(info, total\), or the"),  # type: ignore[arg-type]
    (lambda: CurriculumEnv(walk, make_with(), told_by="me"), "told_by must be 'env' or 'trainer', got 'me'"),
    (lambda: Task("reset", "size 3"), "value must be a mapping of names to JSON values, got 'size 3'"),  # type: ignore[arg-type]
    (lambda: Task("reset", {}, hint=3), "hint must be a text, got 3"),  # type: ignore[arg-type]
    (lambda: Outcome(0, 0, total="1"), "total must be a number, got '1'"),  # type: ignore[arg-type]
    (lambda: Outcome(0, 0, total=None), "total must be a number, got None"),  # type: ignore[arg-type]
    (lambda: Outcome(0, 0, total=float("inf")), "total must be finite, got inf"),
    (lambda: Outcome(0, 0, value=float("nan")), "value must be finite, got nan"),
    (lambda: Outcome("0", 0), "ticket must be a whole number, got '0'"),  # type: ignore[arg-type]
    (lambda: Outcome(0, 0.5), "seed must be a whole number, got 0.5"),  # type: ignore[arg-type]
    (lambda: Outcome(0, 0, policy_version=None), "policy_version must be a whole number, got None"),  # type: ignore[arg-type]
    (lambda: Outcome(0, 0, status="lost"), "status must be one of ok, .*env_error.*, got 'lost'"),  # type: ignore[arg-type]
]  # fmt: skip


def finish(env: CurriculumEnv) -> None:
    while not any(env.step(0)[2:4]):
        pass


def make_with(**options: Any) -> Any:
    return preset.make("plr", **{"generator": Parameters(SPACE), **options})


@pytest.mark.parametrize(("wrong", "message"), WRONG_SETTINGS)
def test_wrong_settings_are_refused_by_name(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"generator": lambda rng: None}, "generator must have a method 'generate', got <function"),
        ({"generator": SlidingDifficulty}, "generator must have a method 'generate'.*an object of that class"),
        ({"gates": [3]}, "gate must have a method 'refuse', got 3"),
    ],
)
def test_what_is_no_part_is_refused(part: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make_with(**part)


def test_a_seed_of_an_environment_is_a_whole_number() -> None:
    env = CurriculumEnv(walk, make_with(generator=Listed(lengths(1))))
    with pytest.raises((TypeError, ValueError), match="bool"):
        env.reset(seed=True)
    env.reset(seed=np.int64(3))  # type: ignore[arg-type]
    assert env.np_random.random() == np.random.default_rng(3).random()


def test_numbers_of_numpy_are_numbers() -> None:
    outcome = Outcome(np.int64(3), np.int32(5), np.float32(0.5), True, np.int64(4))  # type: ignore[arg-type]
    assert outcome == Outcome(3, 5, 0.5, True, 4)
    assert Memory(np.int64(7)).capacity == 7  # type: ignore[arg-type]


def test_rewards_outside_an_undeclared_range_are_refused_and_the_play_given_up() -> None:
    curriculum = make_with(generator=Listed(lengths(2, kind="reset")))
    env = CurriculumEnv("CartPole-v1", make_with(generator=Listed([Task("attribute", {"gravity": 9.8})])))
    env.reset()
    with pytest.raises(ValueError, match=r"outside the curriculum's return_range \[0, 1\]: make the curriculum with"):
        finish(env)
    assert env._plays.curriculum.receipts == {"excluded": 1}  # type: ignore[union-attr]
    env.close()
    ticket = curriculum.ask()
    with pytest.raises(ValueError, match=r"outside the declared return_range \[0, 1\]; declare the family's range"):
        curriculum.tell(Outcome(ticket.id, ticket.seeds[0], total=1.5))


def test_a_scorer_that_needs_values_demands_them() -> None:
    curriculum = make_with(scorer={"name": "trainer-value"}, generator=Listed(lengths(1)))
    ticket = curriculum.ask()
    with pytest.raises(ValueError, match=r"value is None, and the scorer trainer_value.* Outcome\(value=…\)"):
        curriculum.tell(Outcome(ticket.id, ticket.seeds[0], 1.0))
    assert curriculum.tell(Outcome(ticket.id, ticket.seeds[0], 1.0, value=0.25)) == "counted"
    env = CurriculumEnv(walk, curriculum)
    env.reset()
    with pytest.raises(ValueError, match="told_by='trainer'"):
        env.step(1)
    env.close()
    env = CurriculumEnv(walk, curriculum, told_by="trainer")
    env.reset()
    assert curriculum.tell(outcome_of(env.step(1)[4], value=0.5)) == "counted"
    env.close()


def test_a_third_partys_scorer_may_need_values_too() -> None:
    def surprise(outcomes: Any) -> Unknown:
        return Unknown("not yet")

    surprise.needs_values = True  # type: ignore[attr-defined]
    curriculum = make_with()
    curriculum = type(curriculum)(
        memory=Memory(3), scorer=surprise, schedule=curriculum.schedule, generator=Parameters(SPACE)
    )
    ticket = curriculum.ask()
    with pytest.raises(ValueError, match="scorer surprise needs a number"):
        curriculum.tell(outcomes_of(ticket)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {**state, "format": 2}, "format 2; this version reads format 1"),
        (lambda state: {"format": 1}, "lacks settings, memory"),
        (lambda state: [1], r"format \[1\]"),
        (lambda state: {**state, "settings": {**state["settings"], "capacity": 3}}, "capacity = 3, and now it is 20"),
    ],
)
def test_states_that_do_not_fit_change_nothing(change: Any, message: str) -> None:
    curriculum = make()
    play(curriculum, 10)
    before = json.dumps(curriculum.state_dict())
    with pytest.raises(ValueError, match=message):
        curriculum.load_state_dict(change(json.loads(before)))
    assert json.dumps(curriculum.state_dict()) == before


def test_a_state_of_another_preset_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"this state is of a curriculum with schedule = 'Replay.* now it is 'ScreenThenTrain'"
    ):
        make("sfl").load_state_dict(make("plr").state_dict())


def test_tasks_held_back_for_evaluation_are_not_imported_either(tmp_path: Path) -> None:
    curriculum = make()
    play(curriculum, 20)
    export_memory(curriculum.memory, tmp_path / "m.json")
    held_back = next(iter(curriculum.memory)).task
    memory = Memory(50)
    gate = NotIn(frozenset({held_back.id}))
    assert import_memory(memory, tmp_path / "m.json", now=0, gates=[gate]) == len(curriculum.memory) - 1
    assert held_back.id not in memory


def test_other_spaces_are_refused_when_a_task_is_registered() -> None:
    gate = SameSpaces(TaskEnvironments(walk))
    curriculum = make_with(generator=None, gates=[gate])
    assert curriculum.add(Task("make", {"length": 2})) is None
    reason = curriculum.add(Task("make", {"size": 3}))
    assert reason is not None
    assert reason.startswith("other spaces (the environment of task")
    assert "made for Box(0.0, 1000000000000.0, (2,)" in reason
    reason = curriculum.add(Task("make", {"colour": "red"}))
    assert reason is not None
    assert reason.startswith("its environment cannot be made (")
    assert curriculum.refusals == {"other spaces": 1, "its environment cannot be made": 1}
    assert len(curriculum.memory) == 1


@pytest.mark.parametrize("name", ["ticket", "seed", "length", "policy_version"])
def test_whole_numbers_of_an_outcome_fit_into_64_bits(name: str) -> None:
    for beyond in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(ValueError, match="64 bits"):
            Outcome(**{"ticket": 1, "seed": 1, **{name: beyond}})
