"""Ctrl-C at any place: nothing is mixed up afterwards, and what was interrupted did not happen."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from jails import need, program, session, stepping, strongest

from spade_gym.sandbox import plays, zygotes
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.session import Session
from spade_gym.sandbox.zygotes import ZygotePool

LOG = stepping(
    """
    self.log = getattr(self, 'log', '') + action
    if action == 's':
        for _ in range(30_000_000): pass
    return f"{self.seed} {self.log}", 0.0, False, False, {}
    """,
    reset="self.log = ''; return f'ready {seed}', {}",
)
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")


@contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Ctrl-C, as a signal of this process."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def two(played: Session) -> list[int]:
    slots = [played.open(), played.open()]
    played.reset_many([(slots[0], 1), (slots[1], 2)])
    played.step_many([(slots[0], "a"), (slots[1], "b")])
    return slots


@pytest.mark.parametrize("level", ["L0", None])
def test_an_interrupted_step_did_not_happen(level: str | None) -> None:
    with session(LOG, level) as played:
        one, other = two(played)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            played.step(one, "s")
        assert played.past(one).actions == ("a",)  # type: ignore[union-attr]
        assert played.step(one, "c").observation == "1 ac"
        assert played.step(other, "d").observation == "2 bd"


@pytest.mark.parametrize("level", ["L0", None])
def test_an_interrupted_batch_did_not_happen(level: str | None) -> None:
    with session(LOG, level) as played:
        one, other = two(played)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            played.step_many([(other, "x"), (one, "s")])
        assert played.step(one, "c").observation == "1 ac"
        assert played.step(other, "d").observation == "2 bd"


def test_an_interrupted_reset_did_not_happen() -> None:
    slow = stepping(
        "return f'{self.seed} {self.n}', 0.0, False, False, {}",
        reset="""
    if seed == 9:
        for _ in range(30_000_000): pass
    return 'ready', {}""",
    )
    with session(slow) as played:
        one, other = two(played)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            played.reset_many([(other, 3), (one, 9)])
        assert [played.step(slot, "c").observation for slot in (one, other)] == ["1 2", "2 2"]


def test_an_interrupted_question_leaves_no_answer_behind() -> None:
    asked = program(
        """
        class XEnv:
            n = 0
            def reset(self, seed=None):
                return "ready", {}
            def step(self, action):
                self.n += 1
                return str(self.n), 0.0, False, False, {}
            def solution(self):
                for _ in range(30_000_000): pass
                return "x"
        """
    )
    with session(asked) as played:
        one, _ = two(played)
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            played.solution(one)
        assert played.step(one, "c").observation == "2"


@pytest.mark.parametrize("where", ["rows_of", "Transition"])
def test_an_interrupt_between_answer_and_record(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with session(LOG) as played:
        one, other = two(played)
        monkeypatch.setattr(plays, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            played.step(one, "x")
        assert played.step(one, "c").observation == "1 ac"
        assert played.step(other, "d").observation == "2 bd"


def test_a_fork_whose_answer_was_not_awaited_confuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    need(strongest())
    pool = ZygotePool()
    level = Isolation[strongest()]
    fork = lambda: pool.fork(level, "standard", 0, Limits())  # noqa: E731
    receive = socket.recv_fds

    def interrupted(*arguments: object) -> object:
        if sum(1 for _ in forked) < 3:
            forked.append(1)
            raise KeyboardInterrupt
        return receive(*arguments)  # type: ignore[arg-type]

    forked: list[int] = []
    try:
        first = fork()
        monkeypatch.setattr(zygotes.socket, "recv_fds", interrupted)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                fork()
        worker = fork()
        worker.await_ready()
        assert worker.pid == first.pid + 4
        watch = worker.watch()
        worker.kill()
        assert watch.wait(5.0)
        watch.close()
        first.await_ready()
        first.kill()
    finally:
        pool.close()


def test_a_request_under_way_is_not_answered_by_a_question() -> None:
    with session(LOG) as played:
        one, other = two(played)
        played.begin("step", [(one, "c"), (other, "d")])
        assert played.solution(one) is None
        assert played.finish().observations == ["1 ac", "2 bd"]


def test_interrupts_at_any_moment() -> None:
    with session(LOG) as played:
        one, other = two(played)
        expected = ["1 a", "2 b"]
        for turn in range(30):
            try:
                with interrupt_after(0.0002 + 0.0002 * turn):
                    played.step_many([(one, "x"), (other, "y")])
                    expected = [expected[0] + "x", expected[1] + "y"]
                    threading.Event().wait(0.02)
            except KeyboardInterrupt:
                pass
            pasts = [played.past(slot) for slot in (one, other)]
            assert [f"{past.seed} {''.join(past.actions)}" for past in pasts if past] == expected
            found = [played.step(slot, "z").observation for slot in (one, other)]
            expected = [text + "z" for text in expected]
            assert found == expected


def test_a_half_made_worker_is_forgotten_quietly() -> None:
    zygotes.WorkerProcess.__new__(zygotes.WorkerProcess).__del__()
    assert os.getpid()
