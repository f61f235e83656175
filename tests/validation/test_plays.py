from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from spade_gym.errors import ProgramError, ProgramFault, ProgramTimeout
from spade_gym.sandbox.session import Snapshot
from spade_gym.types import Transition
from spade_gym.validation.plays import Kills, Play, Player, Unresponsive, repeat, script


class CountingSession:
    """Counts to three; ``hang`` and ``raise`` fail; every reset and restore is written down."""

    def __init__(self, copyable: bool = True) -> None:
        self.copyable = copyable
        self.calls: list[str] = []
        self.turns: dict[int, int] = {}
        self.seeds: dict[int, int] = {}

    def open(self) -> int:
        self.turns[len(self.turns)] = 0
        return len(self.turns) - 1

    def reset_many(self, items: Sequence[tuple[int, int]]) -> list[Transition | ProgramFault]:
        self.calls += [f"reset {seed}" for _, seed in items]
        for slot, seed in items:
            self.turns[slot], self.seeds[slot] = 0, seed
        return [Transition(f"seed {seed}", 0.0, False, False, {}) for _, seed in items]

    def step_many(self, items: Sequence[tuple[int, str]]) -> list[Transition | ProgramFault]:
        return [self.step(*item) for item in items]

    def step(self, slot: int, action: str) -> Transition | ProgramFault:
        if action == "hang":
            return ProgramTimeout("too slow")
        if action == "raise":
            return ProgramError("KeyError: 1")
        self.turns[slot] += 1
        turn = self.turns[slot]
        return Transition(f"turn {turn} of {self.seeds[slot]}", 0.25 * turn, turn == 3, False, {})

    def snapshot(self, slot: int) -> Snapshot:
        return Snapshot(self.seeds[slot], (), (1, slot) if self.copyable else None)

    def restore(self, slot: int, snapshot: Snapshot) -> None:
        self.calls.append(f"restore {snapshot.seed}")
        self.turns[slot] = 0


def player(session: Any, **changes: Any) -> Player:
    settings: dict[str, Any] = {"rule": "sum", "log": [], "kills": Kills(), "deadline": time.monotonic() + 60}
    return Player(session, **{**settings, **changes})


def test_plays_run_side_by_side_to_their_own_ends():
    short, long = player(CountingSession()).play_many(
        [(1, script(["a"])), (2, repeat("b"))], steps=10, origin="probe", batch=2
    )
    assert (short.actions, short.rewards, short.ended) == (["a"], [0.25], False)
    assert (long.actions, long.rewards, long.ended) == (["b"] * 3, [0.25, 0.5, 0.75], True)
    assert long.observation == "turn 3 of 2"


def test_the_return_is_the_sum_or_the_last_reward():
    by_sum = player(CountingSession()).play(0, repeat("b"), steps=10, origin="probe")
    by_last = player(CountingSession(), rule="last").play(0, repeat("b"), steps=10, origin="probe")
    cut = player(CountingSession(), rule="last").play(0, repeat("b"), steps=2, origin="probe")
    assert (by_sum.total, by_sum.won) == (1.5, True)
    assert (by_last.total, by_last.won) == (0.75, False)
    assert cut.total == 0.0


def test_a_fault_ends_its_play_only():
    one, other = player(CountingSession()).play_many(
        [(0, script(["a", "raise", "a"])), (1, script(["a", "a"]))], steps=5, origin="probe"
    )
    assert str(one.fault) == "KeyError: 1"
    assert one.evidence() == {"seed": 0, "actions": ["a", "raise"], "rewards": [0.25], "fault": "KeyError: 1"}
    assert other.fault is None
    assert len(other.rewards) == 2


def test_a_deadly_action_is_not_played_again_in_any_world():
    kills = Kills()
    assert player(CountingSession(), kills=kills).play(0, script(["hang"]), steps=1, origin="probe").killed
    assert (kills.count, kills.actions) == (1, {"hang"})
    again = player(CountingSession(), kills=kills).play(1, script(["a", "hang"]), steps=5, origin="probe")
    assert (again.actions, again.fault, again.spared) == (["a"], None, True)


def test_after_a_kill_one_action_is_played_at_a_time_so_that_the_next_costs_one_deadline():
    kills = Kills(count=1)
    plays = player(CountingSession(), kills=kills).play_many(
        [(i, script(["hang"])) for i in range(5)], steps=1, origin="probe"
    )
    assert [play.killed for play in plays] == [True, False, False, False, False]
    assert kills.count == 2


def test_too_many_kills_stop_everything():
    class Stubborn(CountingSession):
        def step(self, slot: int, action: str) -> Transition | ProgramFault:
            return ProgramTimeout("too slow")

    with pytest.raises(Unresponsive, match="killed 3 times"):
        player(Stubborn()).play_many([(i, script([f"a{i}"])) for i in range(5)], steps=1, origin="probe", batch=1)


def test_a_slow_program_stops_everything():
    with pytest.raises(Unresponsive, match="too slow"):
        player(CountingSession(), deadline=time.monotonic() - 1).play(0, repeat("b"), steps=5, origin="probe")


def test_save_points_that_are_slower_than_resets_are_given_up():
    class Large(CountingSession):
        def restore(self, slot: int, snapshot: Snapshot) -> None:
            super().restore(slot, snapshot)
            time.sleep(0.01)

    session = Large()
    someone = player(session)
    for _ in range(20):
        someone.play(5, script(["a"]), steps=1, origin="probe")
        someone.play_many([(5, script(["a"]))], steps=1, origin="probe", reuse=True)
    assert session.calls.count("restore 5") == 8


def test_reused_starts_are_restored_instead_of_reset():
    session = CountingSession()
    someone = player(session)
    for _ in range(2):
        plays = someone.play_many([(5, repeat("b")), (6, repeat("b"))], steps=10, origin="probe", reuse=True)
        assert [play.transitions[0].observation for play in plays] == ["seed 5", "seed 6"]
        assert [play.total for play in plays] == [1.5, 1.5]
    assert session.calls == ["reset 5", "reset 6", "restore 5", "restore 6"]


def test_what_cannot_be_copied_is_reset_every_time():
    session = CountingSession(copyable=False)
    someone = player(session)
    for _ in range(2):
        someone.play_many([(5, repeat("b"))], steps=10, origin="probe", reuse=True)
    assert session.calls == ["reset 5", "reset 5"]


def test_every_play_is_logged():
    log: list[Play] = []
    player(CountingSession(), log=log).play_many([(0, script([])), (1, script(["a"]))], steps=3, origin="random")
    assert [(play.seed, play.origin, len(play.actions)) for play in log] == [(0, "random", 0), (1, "random", 1)]
