"""What goes between the run and its workers: MessagePack of typed data, so that Ray has nothing but bytes to carry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from spade_gym.models.base import Completion, ModelRequest
from spade_gym.rollout.play import Play, PlayOrder
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.sandbox.base import Limits


class PlayTask(msgspec.Struct, frozen=True):
    """Orders to be played together.

    Attributes:
        orders: With the whole text of their programs.
        settings: How to play; the folder of one's own prompts must be there for every worker.
        isolation: Of the programs, as for ``Session``.
        limits: What programs may use.
        max_in_flight: Most plays under way in the worker.
        max_sessions: Most programs under way in it.
        in_order: As for ``stream_plays``.
    """

    orders: list[PlayOrder]
    settings: PlayerSettings
    isolation: int | None
    limits: Limits
    max_in_flight: int
    max_sessions: int
    in_order: bool


class Facts(msgspec.Struct, frozen=True):
    """What an engine says of itself.

    Attributes:
        name: Its name.
        max_context: In tokens.
        policy_version: Of its weights.
    """

    name: str
    max_context: int | None
    policy_version: int


def packed(value: Any) -> bytes:
    """Return typed data as bytes."""
    return _ENCODER.encode(value)


def task_of(data: bytes) -> PlayTask:
    """Read a task."""
    return _TASK.decode(data)


def plays_of(data: bytes) -> list[Play]:
    """Read plays."""
    return _PLAYS.decode(data)


def requests_of(data: bytes) -> list[ModelRequest]:
    """Read requests."""
    return _REQUESTS.decode(data)


def completions_of(data: bytes) -> list[Completion]:
    """Read completions."""
    return _COMPLETIONS.decode(data)


def facts_of(data: bytes) -> Facts:
    """Read what an engine says of itself."""
    return _FACTS.decode(data)


def _plain(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} cannot be sent to a worker")


def _typed(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"a {kind.__name__} cannot be received")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_TASK = msgspec.msgpack.Decoder(PlayTask, dec_hook=_typed)
_PLAYS = msgspec.msgpack.Decoder(list[Play])
_REQUESTS = msgspec.msgpack.Decoder(list[ModelRequest])
_COMPLETIONS = msgspec.msgpack.Decoder(list[Completion])
_FACTS = msgspec.msgpack.Decoder(Facts)
