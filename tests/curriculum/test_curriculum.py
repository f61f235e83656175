from __future__ import annotations

import json

import numpy as np
import pytest

from spade_gym.curriculum.curriculum import Curriculum, EmptyCurriculum
from spade_gym.curriculum.gates import NearDuplicates, NotIn
from spade_gym.curriculum.generators import Listed, Parameters, SlidingDifficulty
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.outcomes import Outcomes
from spade_gym.curriculum.samplers import Best, Exp3, Prioritised, Proportional, Uniform
from spade_gym.curriculum.schedules import AlwaysNew, FillThenReplay, Replay, Rounds, Schedule, ScreenThenTrain
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.task import Outcome, Task, Ticket


def mean_return(outcomes: Outcomes) -> Score | Unknown:
    if not len(outcomes):
        return Unknown("no plays")
    return Score(float(outcomes.returns.mean()), None, len(outcomes))


def numbered(count: int) -> list[Task]:
    return [Task("reset", {"level": level}) for level in range(count)]


def make(schedule: Schedule, capacity: int = 10, **settings: object) -> Curriculum:
    parts: dict[str, object] = {
        "memory": Memory(capacity), "scorer": mean_return, "generator": Listed(numbered(capacity)), **settings
    }  # fmt: skip
    return Curriculum(schedule=schedule, **parts)  # type: ignore[arg-type]


def play(curriculum: Curriculum, ticket: Ticket, total: float = 0.5, **facts: object) -> list[str]:
    return [
        curriculum.tell(Outcome(ticket.id, seed, total, total >= 0.999, 3, **facts))  # type: ignore[arg-type]
        for seed in ticket.seeds
    ]


def test_tickets_are_answered_once() -> None:
    curriculum = make(AlwaysNew())
    ticket = curriculum.ask("worker 3")
    assert ticket.actor == "worker 3"
    assert play(curriculum, ticket) == ["counted"]
    assert play(curriculum, ticket) == ["duplicate"]
    assert curriculum.tell(Outcome(99, 1)) == "unknown"
    assert curriculum.tell(Outcome(ticket.id, ticket.seeds[0] + 1)) == "duplicate"
    assert curriculum.receipts == {"counted": 1, "duplicate": 2, "unknown": 1}


@pytest.mark.parametrize("status", ["env_error", "timeout", "aborted"])
def test_faults_never_count_as_a_loss(status: str) -> None:
    curriculum = make(AlwaysNew())
    ticket = curriculum.ask()
    assert play(curriculum, ticket, status=status) == ["excluded"]
    slot = curriculum.memory.slot_of(ticket.task.id)
    assert slot is not None
    assert len(curriculum.memory.record(slot).log.outcomes()) == 0
    assert curriculum.num_pending == 0


def test_late_outcomes_of_evicted_tasks_are_tolerated() -> None:
    curriculum = make(AlwaysNew(), capacity=2, generator=Listed(numbered(5)))
    first = curriculum.ask()
    for _ in range(4):
        curriculum.ask()
    assert play(curriculum, first) == ["late"]


def test_lost_tickets_are_given_up_oldest_first() -> None:
    curriculum = make(AlwaysNew(), max_pending=2)
    tickets = [curriculum.ask() for _ in range(3)]
    assert curriculum.num_pending == 2
    assert play(curriculum, tickets[0]) == ["duplicate"]
    assert play(curriculum, tickets[2]) == ["counted"]


def test_totals_outside_the_declared_range_are_errors() -> None:
    curriculum = make(AlwaysNew())
    ticket = curriculum.ask()
    with pytest.raises(ValueError, match=r"total 7.0 is outside the declared return_range \[0, 1\]"):
        play(curriculum, ticket, 7.0)
    assert play(curriculum, ticket, 1.0) == ["counted"]
    wide = make(AlwaysNew(), return_range=(-200.0, 300.0))
    assert play(wide, wide.ask(), 250.0) == ["counted"]
    for bad in ((0.0, float("inf")), (1.0, 1.0)):
        with pytest.raises(ValueError, match="return_range"):
            make(AlwaysNew(), return_range=bad)
    with pytest.raises(ValueError, match="finite"):
        Outcome(0, 0, float("nan"))


def test_an_empty_curriculum_says_what_is_missing() -> None:
    curriculum = make(Replay(min_records=1, replay_probability=1.0), generator=None)
    with pytest.raises(EmptyCurriculum, match="give it a generator or add tasks"):
        curriculum.ask()
    assert curriculum.add(Task("reset", {"level": 1})) is None
    assert curriculum.add(Task("reset", {"level": 1})) == "exact duplicate"
    assert curriculum.ask().task.value == {"level": 1}


def test_robust_replay_trains_on_replays_only_and_mutates_them() -> None:
    generator = Parameters({"size": (1, 1000), "kind": ["a", "b", "c"]})
    schedule = Replay(replay_probability=0.8, min_records=5, train_new=False, mutate=True)
    curriculum = make(schedule, capacity=100, generator=generator)
    trained, scored, children = 0, 0, 0
    for _ in range(200):
        ticket = curriculum.ask()
        trained += ticket.train
        scored += not ticket.train
        if ticket.task.parent and not ticket.train:
            children += 1
            assert ticket.task.mutation.split(" = ")[0] in ("size", "kind")
        play(curriculum, ticket)
    assert trained > 70
    assert children > 60
    assert scored > children


def test_screening_plays_each_candidate_then_trains_on_the_best() -> None:
    schedule = ScreenThenTrain(num_screened=6, plays=2, train_asks=10, replay_probability=1.0)
    curriculum = make(schedule, capacity=6, sampler=Best(2))
    for _ in range(12):
        ticket = curriculum.ask()
        assert not ticket.train
        play(curriculum, ticket, ticket.task.value["level"] / 10)
    replayed = set()
    for _ in range(10):
        ticket = curriculum.ask()
        assert ticket.train
        replayed.add(ticket.task.value["level"])
        play(curriculum, ticket, ticket.task.value["level"] / 10)
    levels = sorted(record.task.value["level"] for record in curriculum.memory)
    assert replayed == set(levels[-2:])
    assert not curriculum.ask().train


def test_rounds_play_both_arms_on_the_same_seeds() -> None:
    schedule = Rounds(num_tasks=2, plays=4, hint_plays=4, every=2)
    curriculum = make(schedule, capacity=20, generator=Listed(numbered(20)), group_size=4)
    first_round = [curriculum.ask() for _ in range(4)]
    by_arm = {(ticket.task.id, ticket.arm): ticket for ticket in first_round}
    for task_id in {ticket.task.id for ticket in first_round}:
        plain, hint = by_arm[task_id, "plain"], by_arm[task_id, "hint"]
        assert plain.seeds == hint.seeds
        assert len(plain.seeds) == 4
        assert (plain.train, hint.train) == (True, False)
    second_round = [curriculum.ask() for _ in range(2)]
    assert {ticket.task.id for ticket in second_round} == {ticket.task.id for ticket in first_round}
    assert {ticket.arm for ticket in second_round} == {"plain"}
    third_round = [curriculum.ask() for _ in range(4)]
    assert not {ticket.task.id for ticket in third_round} & {ticket.task.id for ticket in first_round}
    assert schedule.round == 3


def test_a_failed_regeneration_keeps_the_old_pool() -> None:
    curriculum = make(Rounds(num_tasks=2, plays=1, hint_plays=0, every=1), generator=Listed(numbered(2), repeat=False))
    first = {curriculum.ask().task.id for _ in range(2)}
    assert {curriculum.ask().task.id for _ in range(6)} == first


def test_a_window_of_difficulties_slides_when_its_top_is_mastered() -> None:
    window = SlidingDifficulty()
    for top in range(6):
        for _ in range(8):
            window.observe(Task("reset", {"difficulty": top}), Outcome(0, 0, 1.0, True))
    assert (window.low, window.high) == (3, 6)
    for _ in range(8):
        window.observe(Task("reset", {"difficulty": 5}), Outcome(0, 0, 1.0, True))
    assert (window.low, window.high, window.state_dict()["plays"]) == (3, 6, 0)
    for _ in range(8):
        window.observe(Task("reset", {"difficulty": 6}), Outcome(0, 0, 0.0, False))
    assert (window.low, window.high) == (3, 6)


SCHEDULES = [
    lambda: AlwaysNew(),
    lambda: Replay(min_records=3),
    lambda: Replay(min_records=3, train_new=False, mutate=True),
    lambda: FillThenReplay(),
    lambda: ScreenThenTrain(num_screened=5, plays=2, train_asks=7),
    lambda: Rounds(num_tasks=3, plays=2, hint_plays=2, every=2),
]
SAMPLERS = [Uniform, Prioritised, Proportional, lambda: Best(3), Exp3]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_resumed_curriculum_asks_exactly_the_same_tickets(schedule, sampler) -> None:
    def fresh() -> Curriculum:
        generator = Parameters({"x": (0, 30)})
        return make(schedule(), capacity=8, generator=generator, sampler=sampler(), seed=3)

    def go_on(curriculum: Curriculum, count: int) -> list[Ticket]:
        tickets = []
        for number in range(count):
            ticket = curriculum.ask()
            tickets.append(ticket)
            if number % 3:
                play(curriculum, ticket, (ticket.task.value["x"] % 11) / 10)
        return tickets

    whole = fresh()
    go_on(whole, 37)
    state = json.loads(json.dumps(whole.state_dict()))
    resumed = fresh()
    resumed.load_state_dict(state)
    assert go_on(resumed, 40) == go_on(whole, 40)
    assert json.dumps(resumed.state_dict()) == json.dumps(whole.state_dict())


def test_states_of_a_newer_format_are_refused() -> None:
    curriculum = make(AlwaysNew())
    with pytest.raises(ValueError, match="format 2"):
        curriculum.load_state_dict({**curriculum.state_dict(), "format": 2})


def test_prioritised_sampling_follows_its_formula() -> None:
    memory = Memory(4)
    for level in range(4):
        memory.add(Task("reset", {"level": level}), now=0)
    for slot, total in ((0, 0.1), (1, 0.9), (2, 0.5)):
        memory.played(slot, Outcome(0, 0, total), "plain", window=0)
    memory.rescore(mean_return)
    memory.asked(0, now=6)
    memory.asked(3, now=8)
    ranked = Prioritised(temperature=0.5, staleness=0.25).probabilities(memory, now=10)
    by_rank = np.array([1 / 9, 1.0, 1 / 4, 0.0]) / (1 / 9 + 1 + 1 / 4)
    stale = np.array([4, 10, 10, 2]) / 26
    assert ranked == pytest.approx(0.75 * by_rank + 0.25 * stale)
    proportional = Prioritised(temperature=1.0, staleness=0.0, by_rank=False).probabilities(memory, now=10)
    assert proportional == pytest.approx([0.1 / 1.5, 0.9 / 1.5, 0.5 / 1.5, 0.0])
    assert Proportional(0.2).probabilities(memory, now=10) == pytest.approx(
        [0.05 + 0.8 * share for share in (0.1 / 1.5, 0.9 / 1.5, 0.5 / 1.5, 0.0)]
    )
    assert Best(2).probabilities(memory, now=10) == pytest.approx([0, 0.5, 0.5, 0])
    for sampler in (Prioritised(), Proportional(), Best(2), Uniform(), Exp3()):
        assert sampler.probabilities(memory, now=10).sum() == pytest.approx(1)


def test_unknown_scores_alone_are_drawn_uniformly() -> None:
    memory = Memory(3)
    for level in range(3):
        memory.add(Task("reset", {"level": level}), now=0)
    for sampler in (Prioritised(staleness=0.0), Proportional(), Best(2)):
        assert sampler.probabilities(memory, now=1) == pytest.approx([1 / 3] * 3)


def test_equal_scores_share_what_their_ranks_have() -> None:
    memory = Memory(4)
    for slot, total in enumerate((0.5, 0.1, 0.5, 0.0)):
        memory.add(Task("reset", {"level": slot}), now=0)
        memory.played(slot, Outcome(0, 0, total), "plain", window=0)
    memory.rescore(mean_return)
    shares = Prioritised(temperature=1.0, staleness=0.0).probabilities(memory, now=1)
    mass = np.array([3 / 4, 1 / 3, 3 / 4, 1 / 4])  # ranks 1 and 2 have 1 + 1/2 together
    assert shares == pytest.approx(mass / mass.sum())


def test_stale_tasks_come_back_the_sooner_the_more_is_lost() -> None:
    memory = Memory(3)
    for slot, plays in enumerate(([1, 1, 1, 1], [1, 0, 0, 0], [])):
        memory.add(Task("reset", {"level": slot}), now=0)
        for won in plays:
            memory.played(slot, Outcome(0, 0, float(won), bool(won)), "plain", window=0)
    memory.played(1, Outcome(0, 0, 1.0, True), "hint", window=0)
    memory.rescore(mean_return)
    assert memory.win_rates == pytest.approx([1.0, 0.25, np.nan], nan_ok=True)
    sampler = Prioritised(staleness=1.0, stale_unsolved=True)
    mass = np.array([0.05, 0.75, 1.0])
    assert sampler.probabilities(memory, now=10) == pytest.approx(mass / mass.sum())


def test_recent_win_rates_forget() -> None:
    memory = Memory(1)
    memory.add(Task("reset", {"level": 0}), now=0)
    for won in [False] * 16 + [True]:
        memory.played(0, Outcome(0, 0, float(won), won), "plain", window=0)
    memory.rescore(mean_return)
    assert memory.win_rates.tolist() == [1 / 16]


def test_exp3_prefers_what_it_was_rewarded_for() -> None:
    memory = Memory(3)
    for level in range(3):
        memory.add(Task("reset", {"level": level}), now=0)
    sampler = Exp3()
    for _ in range(100):
        for slot, progress in enumerate((0.0, 0.5, 1.0)):
            sampler.reward(memory, slot, progress, 1 / 3)
    low, middle, high = sampler.probabilities(memory, now=1)
    assert low < middle < high
    assert low >= 0.05 / 3 - 1e-12


def test_exp3_follows_its_formula() -> None:
    memory = Memory(3)
    for level in range(3):
        memory.add(Task("reset", {"level": level}), now=0)
    sampler = Exp3(exploration=0.1, step=0.5, drift=0.3)
    sampler.reward(memory, 0, 0.2, 1 / 3)  # the first reward has nothing to be compared with: 0
    assert sampler.probabilities(memory, now=1) == pytest.approx([1 / 3] * 3)
    sampler.reward(memory, 1, 0.9, 0.5)  # above all seen: 1, so w = 0.5 / 0.5
    e = np.e
    weights = np.array([0.7 + 0.15 * (1 + e), 0.7 * e + 0.3, 0.7 + 0.15 * (1 + e)])
    assert sampler.probabilities(memory, now=1) == pytest.approx(0.9 * weights / weights.sum() + 0.1 / 3)


def test_exp3_forgets_records_that_left() -> None:
    memory = Memory(2)
    for level in range(2):
        memory.add(Task("reset", {"level": level}), now=0)
    sampler = Exp3(exploration=0.1, drift=0.0, step=1.0)
    sampler.reward(memory, 0, 0.1, 0.5)
    sampler.reward(memory, 1, 0.9, 0.5)
    kept = sampler.probabilities(memory, now=1)[1]
    memory.add(Task("reset", {"level": 2}), now=1)  # in the slot of level 0, which also had weight 0
    assert sampler.probabilities(memory, now=1)[1] == pytest.approx(kept)
    memory.add(Task("reset", {"level": 3}), now=2)
    assert sampler.probabilities(memory, now=2) == pytest.approx([0.5, 0.5])


def test_records_whose_outcome_may_be_coming_are_spared() -> None:
    memory = Memory(2, eviction="lowest-score")
    for level in range(2):
        memory.add(Task("reset", {"level": level}), now=0)
    memory.played(0, Outcome(0, 0, 0.5), "plain", window=0)
    memory.rescore(mean_return)
    evicted = memory.add(Task("reset", {"level": 2}), now=1).evicted
    assert evicted is not None
    assert evicted.task.value == {"level": 0}
    evicted = memory.add(Task("reset", {"level": 3}), now=2).evicted
    assert evicted is not None
    assert evicted.task.value == {"level": 1}  # two asks are the capacity: its outcome is not coming any more


def test_a_small_family_is_replayed_when_it_has_no_more() -> None:
    family = Parameters({"x": (0, 4)})
    for schedule in (FillThenReplay(), Replay(min_records=50, replay_probability=1.0)):
        curriculum = make(schedule, capacity=200, generator=family, sampler=Best(1))
        for _ in range(60):
            play(curriculum, curriculum.ask(), 0.5)
        best = curriculum.ask()
        play(curriculum, best, 1.0)
        tickets = [curriculum.ask() for _ in range(5)]
        for ticket in tickets:
            play(curriculum, ticket, 1.0)
        assert len({ticket.task.id for ticket in tickets}) == 1
        assert len(curriculum.memory) == 5


def test_known_tasks_are_not_screened_again() -> None:
    schedule = Replay(min_records=100, plays_of_new=4)
    curriculum = make(schedule, capacity=200, generator=Listed([Task("reset", {"level": 0})]))
    ids = [curriculum.ask().seeds for _ in range(6)]
    assert len(set(ids)) == 6
    assert curriculum.num_queued == 0


@pytest.mark.parametrize(("eviction", "leaves"), [("oldest", 0), ("lowest-support", 1), ("lowest-score", 2)])
def test_who_leaves_a_full_memory(eviction: str, leaves: int) -> None:
    memory = Memory(3, eviction=eviction)  # type: ignore[arg-type]
    for level in range(3):
        memory.add(Task("reset", {"level": level}), now=level)
    for slot, plays, total in ((0, 3, 0.9), (1, 1, 0.5), (2, 2, 0.1)):
        for _ in range(plays):
            memory.played(slot, Outcome(0, 0, total), "plain", window=0)
    memory.rescore(mean_return)
    evicted = memory.add(Task("reset", {"level": 9}), now=9).evicted
    assert evicted is not None
    assert evicted.task.value == {"level": leaves}
    assert len(memory) == 3


def test_a_log_keeps_the_last_plays_in_order() -> None:
    memory = Memory(1, plays_kept=40)
    memory.add(Task("reset", {"level": 0}), now=0)
    for number in range(1000):
        memory.played(0, Outcome(0, number, number / 1000), "plain", window=number // 100)
    outcomes = memory.record(0).log.outcomes()
    assert outcomes.seeds.tolist() == list(range(960, 1000))
    assert outcomes.returns.tolist() == [number / 1000 for number in range(960, 1000)]
    assert memory.record(0).log.num_plays == 1000


def test_gates_keep_tasks_out_and_send_near_duplicates_to_review() -> None:
    held_back = Task("reset", {"level": 3})
    curriculum = make(AlwaysNew(), gates=[NotIn(frozenset({held_back.id}))])
    assert curriculum.add(held_back) == "held back for evaluation"
    seen = {curriculum.ask().task.id for _ in range(30)}
    assert held_back.id not in seen
    source = "def f(a):\n    total = 0\n    for item in a:\n        total += item * 3\n    return total\n"
    twin = source.replace("3", "17") + "# another comment\n"
    other = "class Game:\n    def play(self, move):\n        if move == 'left':\n            return self.x - 1\n"
    tasks = {name: Task("program", {"program": name}) for name in ("one", "twin", "other")}
    gate = NearDuplicates({tasks["one"].id: source, tasks["twin"].id: twin, tasks["other"].id: other})
    curriculum = make(AlwaysNew(), gates=[gate])
    assert curriculum.add(tasks["one"]) is None
    assert curriculum.add(tasks["twin"]) == f"resembles {tasks['one'].id} (1.00)"
    assert curriculum.add(tasks["other"]) is None
    assert [row[0] for row in gate.review] == [tasks["twin"]]


def test_tasks_are_identified_by_what_is_played() -> None:
    task = Task("make", {"b": 1, "a": [1, 2]}, skill="x", hint="h")
    assert task.id == Task("make", {"a": [1, 2], "b": 1}).id
    assert task.id != Task("reset", {"b": 1, "a": [1, 2]}).id
    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task
    with pytest.raises(ValueError, match="must be JSON"):
        _ = Task("make", {"a": object()}).id
    with pytest.raises(ValueError, match="kind must be one of"):
        Task("levels", {})  # type: ignore[arg-type]
