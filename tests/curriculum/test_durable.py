from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from runs import SPACE, crash, make, outcomes_of, play, play_until_killed, same, task

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum import Curriculum, EmptyCurriculum
from spade_gym.curriculum.durable import DurableCurriculum
from spade_gym.curriculum.gates import NearDuplicates
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.store import Store, StoreError
from spade_gym.curriculum.task import Outcome, Task


def told(folder: Path) -> list[tuple[int, int, str]]:
    with Store(folder, read_only=True) as store:
        return [(item.outcome.ticket, item.outcome.seed, item.receipt) for item in store.outcomes()]


@pytest.mark.parametrize("name", preset.names())
def test_a_killed_run_goes_on_as_one_that_was_not(tmp_path: Path, name: str) -> None:
    expected = [same(ticket) for ticket in play(make(name), 300)]
    store = Store(tmp_path / "a")
    with DurableCurriculum(make(name), store, snapshot_every=37) as curriculum:
        before = [same(ticket) for ticket in play(curriculum, 120)]
        curriculum.ask("a")  # in flight when the process dies
        left = crash(store, tmp_path / "b")
    with DurableCurriculum(make(name), Store(left), snapshot_every=10_000) as curriculum:
        after = [same(ticket) for ticket in play(curriculum, 180)]
    assert before + after == expected


def test_groups_and_failed_asks_are_replayed(tmp_path: Path) -> None:
    def begin() -> Curriculum:
        return preset.make("spade", group_size=3, schedule={"num_tasks": 2, "plays": 3, "hint_plays": 3})

    store = Store(tmp_path / "a")
    with DurableCurriculum(begin(), store) as curriculum:
        with pytest.raises(EmptyCurriculum):
            curriculum.ask()
        assert curriculum.add(task(size=1)) is None
        assert curriculum.add(task(size=1)) == "exact duplicate"
        played = play(curriculum, 5)
        assert len(played[0].seeds) == 3
        state = curriculum.state_dict()
        left = crash(store, tmp_path / "b")
    with DurableCurriculum(begin(), Store(left)) as curriculum:
        assert curriculum.state_dict() == state


def test_tickets_in_flight_are_handed_out_again_oldest_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    with DurableCurriculum(make(), store) as curriculum:
        tickets = [curriculum.ask("a") for _ in range(4)]
        curriculum.tell(outcomes_of(tickets[1])[0])
        left = crash(store, tmp_path / "b")
    with DurableCurriculum(make(), Store(left)) as curriculum:
        again = [curriculum.ask("b") for _ in range(4)]
        assert [ticket.id for ticket in again] == [0, 2, 3, 4]
        assert [same(ticket) for ticket in again[:3]] == [same(tickets[i]) for i in (0, 2, 3)]
        assert {ticket.actor for ticket in again} == {"b"}


def test_a_ticket_that_was_told_of_meanwhile_is_not_handed_out_again(tmp_path: Path) -> None:
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum:
        first = curriculum.ask()
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum:
        assert curriculum.tell(outcomes_of(first)[0]) in ("counted", "excluded")
        assert curriculum.ask().id == 1
    with DurableCurriculum(make(), Store(tmp_path), reissue=False) as curriculum:
        assert curriculum.ask().id == 2


def test_an_outcome_that_is_refused_leaves_no_trace(tmp_path: Path) -> None:
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum:
        ticket = curriculum.ask()
        with pytest.raises(ValueError, match="return_range"):
            curriculum.tell(Outcome(ticket.id, ticket.seeds[0], total=3.0))
        assert curriculum.tell(Outcome(ticket.id, ticket.seeds[0], total=1.0)) == "counted"
        assert curriculum.tell(Outcome(ticket.id, ticket.seeds[0], total=1.0)) == "duplicate"
    assert told(tmp_path) == [(0, ticket.seeds[0], "counted"), (0, ticket.seeds[0], "duplicate")]


def test_a_batch_is_one_commit_and_an_error_in_it_loses_nothing_before(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with DurableCurriculum(make(), store) as curriculum:
        tickets = [curriculum.ask() for _ in range(3)]
        good = [Outcome(ticket.id, ticket.seeds[0]) for ticket in tickets]
        with curriculum.batch():
            curriculum.tell(good[0])
            assert told(tmp_path) == []
        assert len(told(tmp_path)) == 1
        with pytest.raises(ValueError, match="outside"):
            curriculum.tell_many([good[1], Outcome(2, tickets[2].seeds[0], total=-5.0)])
        assert len(told(tmp_path)) == 2


def test_after_a_failed_write_nothing_more_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    curriculum = DurableCurriculum(make(), store)
    ticket = curriculum.ask()
    store._database.execute("DROP TABLE tail")
    with pytest.raises(StoreError, match="cannot be written"):
        curriculum.tell(Outcome(ticket.id, ticket.seeds[0]))
    with pytest.raises(StoreError, match="an earlier write"):
        curriculum.ask()
    curriculum.close()


def test_other_settings_are_refused(tmp_path: Path) -> None:
    DurableCurriculum(make(), Store(tmp_path)).close()
    with pytest.raises(StoreError, match="capacity = 20, and now it is 30"):
        DurableCurriculum(make(capacity=30), Store(tmp_path))
    with pytest.raises(StoreError, match="lowest-score"):
        DurableCurriculum(make("uniform"), Store(tmp_path))
    with pytest.raises(StoreError, match="begun with seed = 3, and now it is 4"):
        DurableCurriculum(make(seed=4), Store(tmp_path))


def test_what_was_refused_leaves_the_store_unlocked(tmp_path: Path) -> None:
    DurableCurriculum(make(), Store(tmp_path)).close()
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="capacity"):
        DurableCurriculum(make(capacity=30), store)
    with pytest.raises(StoreError, match=r"was closed, .*open it again"):
        DurableCurriculum(make(), store)
    with pytest.raises(ValueError, match="snapshot_every"):
        DurableCurriculum(make(), Store(tmp_path), snapshot_every=0)
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum:
        assert curriculum.ask().id == 0


def test_what_waits_for_review_survives(tmp_path: Path) -> None:
    source = "def f(a):\n    total = 0\n    for item in a:\n        total += item * 3\n    return total\n"
    tasks = [Task("program", {"program": name}) for name in ("one", "twin")]
    sources = {tasks[0].id: source, tasks[1].id: source.replace("3", "17")}

    def begin() -> Curriculum:
        return preset.make("plr", gates=[NearDuplicates(sources)])

    store = Store(tmp_path / "a")
    with DurableCurriculum(begin(), store) as curriculum:
        curriculum.add(tasks[0])
        curriculum.snapshot()
        curriculum.add(tasks[1])
        left = crash(store, tmp_path / "b")
    for folder in (left, tmp_path / "a"):  # from the journal, and from the state
        with DurableCurriculum(begin(), Store(folder)) as curriculum:
            (gate,) = curriculum.curriculum.gates
            assert isinstance(gate, NearDuplicates)
            assert gate.review == [(tasks[1], tasks[0].id, 1.0)]


class Fickle(Parameters):
    """A generator that comes out differently every time."""

    def generate(self, rng: np.random.Generator) -> Task | None:
        return Task("reset", {"size": time.perf_counter_ns()})


class Remembered(Fickle):
    """One that says so, as a language model must."""

    replayable = False


def test_a_generator_that_is_not_a_function_of_its_generator_must_say_so(tmp_path: Path) -> None:
    for kind, folder in ((Fickle, "fickle"), (Remembered, "remembered")):
        store = Store(tmp_path / folder)
        with DurableCurriculum(preset.make("plr", generator=kind(SPACE)), store) as curriculum:
            tickets = play(curriculum, 30)
            left = crash(store, tmp_path / f"{folder}-left")
        store = Store(left)
        if kind is Fickle:
            with pytest.raises(StoreError, match="replayable"):
                DurableCurriculum(preset.make("plr", generator=kind(SPACE)), store)
        else:
            with DurableCurriculum(preset.make("plr", generator=kind(SPACE)), store) as curriculum:
                assert curriculum.ask().id == len(tickets)


def test_a_generator_that_raises_does_not_spoil_the_journal(tmp_path: Path) -> None:
    class Failing(Parameters):
        broken = False

        def generate(self, rng: np.random.Generator) -> Task | None:
            made = super().generate(rng)
            if Failing.broken:
                raise OSError("no network")
            return made

    store = Store(tmp_path / "a")
    with DurableCurriculum(preset.make("uniform", generator=Failing(SPACE)), store) as curriculum:
        play(curriculum, 5)
        Failing.broken = True
        with pytest.raises(OSError, match="no network"):
            curriculum.ask()
        Failing.broken = False
        play(curriculum, 5)
        state = curriculum.state_dict()
        left = crash(store, tmp_path / "b")
    with DurableCurriculum(preset.make("uniform", generator=Failing(SPACE)), Store(left)) as curriculum:
        assert curriculum.state_dict() == state


def test_going_back_to_a_state_is_kept(tmp_path: Path) -> None:
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum:
        play(curriculum, 10)
        state = curriculum.state_dict()
        expected = [same(ticket) for ticket in play(curriculum, 10)]
        curriculum.load_state_dict(state)
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum:
        assert [same(ticket) for ticket in play(curriculum, 10)] == expected


def kill_and_resume(folder: Path, *, num_kills: int, num_outcomes: int, seed: int, durability: str = "process") -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["spade_gym.curriculum.preset", "spade_gym.curriculum.durable", "pytest"])
    rng = random.Random(seed)
    log = folder / "log"
    log.touch()
    kills = 0
    while kills < num_kills:
        opened = log.read_text().count("opened")
        process = context.Process(target=play_until_killed, args=(str(folder), str(log), num_outcomes, durability))
        process.start()
        if rng.random() < 0.7:
            while log.read_text().count("opened") == opened and process.is_alive():
                time.sleep(0.001)
        time.sleep(rng.random() * 0.04)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        kills += 1
        process.close()
    play_until_killed(str(folder), str(log), num_outcomes, durability)

    logged = Counter(line for line in log.read_text().splitlines() if line != "opened")
    kept = Counter(f"{ticket} {seed}" for ticket, seed, receipt in told(folder) if receipt in ("counted", "excluded"))
    assert not logged - kept, "an outcome for which tell had returned was lost"
    assert set(kept.values()) == {1}, "an outcome was counted twice"
    with Store(folder, read_only=True) as store:
        asked = [same(entry.ticket) for entry in store.journal() if getattr(entry, "ticket", None) is not None]
    expected = [same(ticket) for ticket in play(make(), len(asked))]
    assert asked == expected, "the resumed run asked for other tickets"
    assert [item[0] for item in told(folder)] == [item[0] for item in expected][: len(told(folder))]


def test_kill_9_and_resume(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, num_kills=6, num_outcomes=1500, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("durability", ["process", "power"])
def test_kill_9_fifty_times_and_resume(tmp_path: Path, durability: str) -> None:
    kill_and_resume(tmp_path, num_kills=50, num_outcomes=4000, seed=2, durability=durability)


def use_in_child(curriculum: DurableCurriculum, pipe: int) -> None:
    try:
        curriculum.tell(Outcome(0, 0))
    except StoreError as error:
        os.write(pipe, str(error).encode())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_copy_is_refused_and_does_no_harm(tmp_path: Path) -> None:
    curriculum = DurableCurriculum(make(), Store(tmp_path))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        use_in_child(curriculum, writer)
        curriculum.store.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert b"CurriculumServer" in os.read(reader, 4096)
    os.close(reader)
    os.close(writer)
    play(curriculum, 3)
    curriculum.close()
    assert len(told(tmp_path)) == 3


def test_tables_can_be_read_with_plain_sql(tmp_path: Path) -> None:
    with DurableCurriculum(make(), Store(tmp_path)) as curriculum:
        play(curriculum, 20)
    database = sqlite3.connect(tmp_path / "run.db")
    query = "SELECT count(*) FROM outcomes JOIN tickets ON tickets.id = ticket JOIN tasks ON tasks.id = tickets.task"
    assert database.execute(query).fetchone() == (20,)
    database.close()
