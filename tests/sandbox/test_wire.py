"""Whatever a worker sends, the trainer gets a checked answer or a fault of the program; nothing else."""

import math
import socket
import threading
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jails import stepping

from spade_gym.errors import ProgramCrash, ProgramFault, ProgramTimeout
from spade_gym.sandbox.answers import Batch
from spade_gym.sandbox.base import Limits
from spade_gym.sandbox.channel import WorkerChannel
from spade_gym.sandbox.session import Session
from spade_gym.sandbox.wire import (
    FAILED,
    Request,
    Rows,
    Value,
    decode_request,
    frame,
    is_plain,
    max_frame_bytes,
)  # fmt: skip
from spade_gym.sandbox.worker import play_rows
from spade_gym.sandbox.zygotes import WorkerProcess

LIMITS = Limits(step_seconds=5.0, load_seconds=5.0, text_chars=1000)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ANYTHING = st.recursive(
    PLAIN | st.binary(max_size=5) | st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary(max_size=4)),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)
INFO = st.dictionaries(st.text(max_size=3), ANYTHING, max_size=2)


class Fake:
    """A worker that says what it is told to, and the channel to it."""

    def __init__(self, says: bytes, *, then_closes: bool = True) -> None:
        ours, self.theirs = socket.socketpair()
        self.channel = WorkerChannel(WorkerProcess(ours, 0, None), LIMITS.text_chars)
        self._says, self._closes = says, then_closes

    def __enter__(self) -> WorkerChannel:
        self._thread = threading.Thread(target=self._talk)
        self._thread.start()
        return self.channel

    def _talk(self) -> None:
        try:
            self.theirs.sendall(self._says)
            if self._closes:
                self.theirs.shutdown(socket.SHUT_WR)
        except OSError:  # the channel had enough
            pass

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self._thread.join()
        self.theirs.close()


def session_with(channel: WorkerChannel) -> Session:
    """A session that believes the channel's worker to be its own, with two instances under way."""
    session = Session(stepping("pass"), isolation="L1", limits=LIMITS)
    session._link._channel = channel
    plays = session._plays
    session._link.generation = plays._generation = 1
    session._link._new_channel = _no_second_worker  # type: ignore[method-assign]
    for _ in range(2):
        plays.slots[session.open()].fault = None
    plays._faulty.clear()
    return session


def _no_second_worker() -> Any:
    raise ProgramCrash("the end of the test")


def answers(says: bytes, operation: str = "step") -> Batch:
    with Fake(says) as channel:
        session = session_with(channel)
        session.begin(operation, [(0, "a" if operation == "step" else 0), (1, "b" if operation == "step" else 1)])
        return session.finish()


def assert_sound(batch: Batch) -> None:
    assert len(batch.observations) == len(batch.rewards) == len(batch.flags) == 2
    for position in range(2):
        if position in batch.faults:
            assert isinstance(batch.faults[position], ProgramFault)
            assert position not in batch.infos
        assert type(batch.observations[position]) is str
        assert len(batch.observations[position]) <= LIMITS.text_chars
        assert math.isfinite(batch.rewards[position])
        assert abs(batch.rewards[position]) <= LIMITS.abs_reward
        assert batch.flags[position] in range(4)
    assert all(is_plain(info) for info in batch.infos.values())
    assert len(batch.transitions()) == 2


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_fault(says: bytes) -> None:
    batch = answers(says)
    assert_sound(batch)
    assert set(batch.faults) == {0, 1}


@given(ANYTHING)
@settings(max_examples=100, deadline=None)
def test_any_message_is_a_fault(message: Any) -> None:
    body = msgspec.msgpack.encode(message)
    batch = answers(len(body).to_bytes(4, "little") + body)
    assert_sound(batch)
    assert set(batch.faults) == {0, 1}


@given(
    st.integers(-1, 3), st.booleans(), st.lists(st.text(max_size=1200), max_size=4), st.lists(st.floats(), max_size=4),
    st.lists(st.integers(-9, 9), max_size=4), st.dictionaries(st.integers(-2, 4), INFO, max_size=2),
    st.lists(st.text(), max_size=3), st.sampled_from(["step", "reset"]),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_any_columns_are_checked(
    sequence: int, last: bool, observations: list[str], rewards: list[float], flags: list[int],
    infos: dict[int, Any], adapters: list[str], operation: str,
) -> None:  # fmt: skip
    assert_sound(answers(frame(Rows(sequence, last, observations, rewards, flags, infos, adapters)), operation))


@given(st.integers(0, 200), st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_a_truncated_frame_is_a_fault(cut: int, piece: int) -> None:
    whole = frame(Rows(1, True, ["a", "b"], [0.0, 1.0], [0, 1], {1: {"n": 1}}, []))
    batch = answers(whole[: min(cut, len(whole) - 1)])
    assert_sound(batch)
    assert set(batch.faults) == {0, 1}
    good = answers(whole)
    assert (good.observations, good.rewards, good.flags) == (["a", "b"], [0.0, 1.0], [0, 1])
    assert (good.infos, good.faults) == ({1: {"n": 1}}, {})


@given(ANYTHING, st.booleans(), st.sampled_from([
    ("solution", ()), ("tools", ()), ("tool_methods", ()), ("num_criteria", ()), ("criterion", (0,)),
    ("fingerprint", ()), ("snapshot", ()),
]))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_answer_to_a_question_is_checked(value: Any, failed: bool, question: tuple[str, tuple[int, ...]]) -> None:
    operation, arguments = question
    with Fake(frame(Value(1, failed, value, []))) as channel:
        session = session_with(channel)
        try:
            found = getattr(session, operation)(0, *arguments)
        except ProgramFault:
            return
        assert operation != "num_criteria" or 0 <= found <= 10_000


def test_results_in_several_frames() -> None:
    parts = [frame(Rows(1, n == 1, [f"o{n}"], [0.5], [0], {0: {"n": n}}, [])) for n in range(2)]
    batch = answers(b"".join(parts))
    assert batch == Batch(["o0", "o1"], [0.5, 0.5], [0, 0], {0: {"n": 0}, 1: {"n": 1}}, {})


def test_what_came_before_a_fault_is_kept() -> None:
    batch = answers(frame(Rows(1, False, ["o0"], [0.5], [0], {}, [])) + b"\xff" * 40)
    assert batch.observations == ["o0", ""]
    assert set(batch.faults) == {1}


def test_a_failed_row_names_the_error() -> None:
    batch = answers(frame(Rows(1, True, ["ValueError: x", "b"], [0.0, 0.0], [FAILED, 0], {0: {"a": 1}}, [])))
    assert batch.faults[0].reason == "error"
    assert "ValueError: x" in str(batch.faults[0])
    assert batch.infos == {}
    assert batch.observations == ["", "b"]


def test_forged_adapters_are_forgotten() -> None:
    with Fake(frame(Rows(1, True, ["a", "b"], [0.0] * 2, [0] * 2, {}, ["nonsense", "numpy_scalar"]))) as channel:
        session = session_with(channel)
        session.begin("step", [(0, "a"), (1, "b")])
        session.finish()
        assert list(session._link._adapters) == ["numpy_scalar"]


@pytest.mark.parametrize("pause", [0.0, 0.005])
def test_a_dribbling_worker_is_late(pause: float) -> None:
    ours, theirs = socket.socketpair()
    channel = WorkerChannel(WorkerProcess(ours, 0, None), 1000)
    stop = threading.Event()

    def dribble() -> None:
        try:
            theirs.sendall((100_000).to_bytes(4, "little"))
            while not stop.wait(pause) if pause else not stop.is_set():
                theirs.sendall(b"\x90")
        except OSError:
            pass

    thread = threading.Thread(target=dribble)
    channel.send("step", [(0, "a")], 0.1)
    thread.start()
    try:
        with pytest.raises((ProgramTimeout, ProgramCrash)):
            channel.receive()
    finally:
        stop.set()
        channel.close()
        thread.join()
        theirs.close()


def test_a_worker_that_reads_nothing_is_late() -> None:
    ours, theirs = socket.socketpair()
    channel = WorkerChannel(WorkerProcess(ours, 0, None), 1000)
    with pytest.raises(ProgramTimeout, match="read nothing"):
        channel.send("step", [(0, "a" * 5_000_000)], 0.1)
    channel.close()
    theirs.close()


def test_a_dead_worker_is_a_crash() -> None:
    ours, theirs = socket.socketpair()
    channel = WorkerChannel(WorkerProcess(ours, 0, None), 1000)
    theirs.close()
    with pytest.raises(ProgramCrash, match="dead"):
        channel.send("step", [(0, "a")], 0.1)
    with pytest.raises(ProgramCrash, match="died"):
        channel.receive()
    channel.close()


@given(PLAIN)
def test_plain_data_is_plain(value: Any) -> None:
    assert is_plain(value)
    assert not is_plain([value, b"bytes"])
    assert not is_plain({"x": {1: value}})


def test_requests_survive_the_wire() -> None:
    request = Request(3, "step", [(0, "é\0😀"), (1, "")])
    assert decode_request(frame(request)[4:]).arguments == [[0, "é\0😀"], [1, ""]]
    assert max_frame_bytes(1000) > 1 << 20


EMPTY_LISTS = b"\x81\xa1a\xdd" + (60_000).to_bytes(4, "big") + b"\x90" * 60_000


def raw_rows(observations: bytes = b"\x92\xa0\xa0", infos: bytes = b"\x80", adapters: bytes = b"\x90") -> bytes:
    """A frame put together by hand: two rows, with columns of the given bytes."""
    numbers = b"\x92" + b"\xcb" + bytes(8) + b"\xcb" + bytes(8)
    body = b"\x98\xa4rows\x01\xc3" + observations + numbers + b"\x92\x00\x00" + infos + adapters
    return len(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "frame_bytes",
    [
        raw_rows(infos=b"\x81\x00" + EMPTY_LISTS),
        raw_rows(infos=b"\x81\x00\x81\xa1a" + b"\x91" * 60_000 + b"\x90"),
        raw_rows(infos=b"\x81\x00\x81\xa1a\xdb" + (70_000).to_bytes(4, "big") + b"x" * 70_000),
        raw_rows(infos=b"\xdf" + (400_000).to_bytes(4, "big") + b"\x00\x80" * 400_000),
        raw_rows(adapters=b"\xdd" + (900_000).to_bytes(4, "big") + b"\xa0" * 900_000),
        raw_rows(observations=b"\xdd" + (900_000).to_bytes(4, "big") + b"\xa0" * 900_000),
        raw_rows(adapters=b"\x91\xdb" + (900_000).to_bytes(4, "big") + b"x" * 900_000),
        (50 << 20).to_bytes(4, "little") + b"\x90" * 1000,
    ],
    ids=["lists", "depth", "text", "infos", "adapters", "rows", "a long adapter", "a long frame"],
)
def test_a_frame_that_would_grow_here_is_refused_before_it_does(frame_bytes: bytes) -> None:
    answers(raw_rows())  # so that nothing is measured that comes with the first frame
    tracemalloc.start()
    try:
        batch = answers(frame_bytes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert set(batch.faults) == {0, 1}
    assert peak < 6 << 20


def test_an_answer_that_would_grow_here_is_refused() -> None:
    lists = b"\xdd" + (900_000).to_bytes(4, "big") + b"\x90" * 900_000
    body = b"\x95\xa5value\x01\xc2" + lists + b"\x90"
    with Fake(len(body).to_bytes(4, "little") + body) as channel:
        session = session_with(channel)
        with pytest.raises(ProgramFault):
            session.tools(0)


def test_an_interrupted_request_leaves_no_answer_for_the_next() -> None:
    with Fake(frame(Rows(1, True, ["old", "old"], [0.0] * 2, [0] * 2, {}, []))) as channel:
        channel.send("step", [(0, "a"), (1, "b")], 5.0)
        with pytest.raises(ProgramCrash, match="given up"):
            channel.send("step", [(0, "a"), (1, "b")], 5.0)


def test_large_rows_leave_in_several_frames() -> None:
    class Large:
        def step(self, slot: int, action: str) -> tuple[str, float, int, None]:
            return "😀" * 100_000, 0.0, 0, None

        def new_adapters(self) -> list[str]:
            return []

    sent: list[Rows] = []
    request = Request(1, "step", [(n, "a") for n in range(20)])
    play_rows(Large(), request, sent.append, lambda: 0.0)  # type: ignore[arg-type]
    assert sum(len(rows.flags) for rows in sent) == 20
    assert [rows.last for rows in sent] == [False] * (len(sent) - 1) + [True]
    assert max(len(frame(rows)) for rows in sent) <= max_frame_bytes(100_000)
    assert len(sent) > 4
