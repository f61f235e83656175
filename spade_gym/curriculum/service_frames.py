"""The frames between a curriculum's server and its clients: four bytes of length, then msgpack. Never pickle.

A client asks one thing at a time and waits for the answer. Everything is decoded into exactly these types.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from spade_gym.curriculum.task import Arm, Outcome, Task, Ticket
from spade_gym.types import Status

LENGTH_BYTES = 4
#: Largest frame that either side takes; a hint or an outcome is far below it.
MAX_FRAME_BYTES = 8 << 20
#: Largest frame of somebody who has not said hello yet.
MAX_HELLO_BYTES = 4096
PROTOCOL_VERSION = 1

Problem = Literal["empty", "value", "failed", "protocol"]


class Hello(msgspec.Struct, array_like=True, tag="hello"):
    """The first frame of a client.

    Attributes:
        version: ``PROTOCOL_VERSION``.
        token: The server's, for loopback; "" on a Unix socket.
    """

    version: int
    token: str


class Ask(msgspec.Struct, array_like=True, tag="ask"):
    """``ask(actor)``."""

    actor: str


class Tell(msgspec.Struct, array_like=True, tag="tell"):
    """``tell`` for each outcome, as the fields of ``Outcome``."""

    outcomes: list[tuple[int, int, float, bool, int, Status, int, float | None]]


class Welcome(msgspec.Struct, array_like=True, tag="welcome"):
    """Answers ``Hello``: the curriculum's declared range of returns."""

    low: float
    high: float


class Given(msgspec.Struct, array_like=True, tag="given"):
    """Answers ``Ask``: the fields of a ticket, with its task's."""

    ticket: int
    kind: str
    value: dict[str, Any]
    skill: str
    parent: str
    mutation: str
    hint: str
    seeds: tuple[int, ...]
    arm: Arm
    train: bool
    actor: str
    setting: str


class Received(msgspec.Struct, array_like=True, tag="received"):
    """Answers ``Tell``: one receipt an outcome, and errors by position for those that were refused for good."""

    receipts: list[str]
    errors: dict[int, str]


class Failed(msgspec.Struct, array_like=True, tag="failed"):
    """Answers anything that could not be done."""

    problem: Problem
    message: str


Request = Hello | Ask | Tell
Reply = Welcome | Given | Received | Failed

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
PROBLEMS: tuple[Problem, ...] = get_args(Problem)


def frame(message: Request | Reply) -> bytes:
    """Encode a message with its length in front.

    Raises:
        TypeError, OverflowError: A value of a task is nothing that msgpack holds.
    """
    body = encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def pack_outcome(outcome: Outcome) -> tuple[int, int, float, bool, int, Status, int, float | None]:
    """Return the fields of an outcome; numbers of NumPy become plain ones."""
    return (
        int(outcome.ticket), int(outcome.seed), float(outcome.total), bool(outcome.won), int(outcome.length),
        outcome.status, int(outcome.policy_version), None if outcome.value is None else float(outcome.value),
    )  # fmt: skip


def pack_ticket(ticket: Ticket) -> Given:
    """Return a ticket as a frame."""
    task = ticket.task
    return Given(
        ticket.id, task.kind, dict(task.value), task.skill, task.parent, task.mutation, task.hint,
        tuple(ticket.seeds), ticket.arm, ticket.train, ticket.actor, task.setting,
    )  # fmt: skip


def unpack_ticket(given: Given) -> Ticket:
    """Read a ticket."""
    task = Task(given.kind, given.value, given.skill, given.parent, given.mutation, given.hint, given.setting)  # type: ignore[arg-type]
    return Ticket(given.ticket, task, given.seeds, given.arm, given.train, given.actor)
