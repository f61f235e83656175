"""How a run keeps what its designer wrote, so that nothing is asked or judged twice."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import msgspec

from spade_gym.curriculum.writer_lock import StoreError
from spade_gym.designer.attempt import Attempt
from spade_gym.designer.request import DesignReply, DesignRequest
from spade_gym.models.base import Completion, Message
from spade_gym.models.sample import Sample
from spade_gym.programs.program import Program
from spade_gym.selfplay.run_store import RunStore
from spade_gym.storable import storable

_pack = msgspec.msgpack.Encoder().encode
_unpack_completion = msgspec.msgpack.Decoder(Completion).decode
_unpack_ids = msgspec.msgpack.Decoder(tuple[int, ...]).decode
_unpack_messages = msgspec.json.Decoder(tuple[Message, ...]).decode


class DesignJournal:
    """The ``Journal`` of ``designer/attempts.py`` over a run's store."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def known(self, request: DesignRequest) -> Attempt | DesignReply | None:
        """Return the judged attempt, else the reply, else ``None``."""
        row = self._store.row("SELECT * FROM replies WHERE key = ?", (request.key,))
        if row is None:
            return None
        judged = self._store.row("SELECT * FROM attempts WHERE key = ?", (request.key,))
        try:
            reply = self._reply(row, request)
            if judged is None:
                return reply
            program = self._store.program(judged["digest"], judged["manifest"]) if judged["digest"] else None
            return Attempt.from_json(json.loads(judged["findings"]), reply, program)
        except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self._store.path}: what was kept of {request.key} cannot be read: {error}") from error

    def _reply(self, row: dict[str, Any], request: DesignRequest) -> DesignReply:
        return DesignReply(
            request,
            row["text"],
            error=row["error"],
            messages=_unpack_messages(row["prompt"]),
            prompt_ids=None if row["prompt_ids"] is None else _unpack_ids(row["prompt_ids"]),
            completion=None if row["completion"] is None else _unpack_completion(row["completion"]),
            origin=tuple((key, value) for key, value in json.loads(row["origin"])),
            program=self._store.program(row["digest"], row["manifest"]) if row["digest"] else None,
            hint=row["hint"],
        )

    def samples(self, key: str) -> tuple[Sample, ...]:
        """Token ids of a reply for training; empty where no model sampled it, or its ids are not known."""
        row = self._store.row("SELECT completion, prompt_ids FROM replies WHERE key = ?", (key,))
        if row is None or row["completion"] is None or row["prompt_ids"] is None:
            return ()
        prompt, said = _unpack_ids(row["prompt_ids"]), _unpack_completion(row["completion"])
        if said.ids is None or said.logprobs is None:
            return ()
        before = (0.0,) * len(prompt)
        return (
            Sample(
                (*prompt, *said.ids),
                (*(0 for _ in prompt), *(1 for _ in said.ids)),
                (*before, *said.logprobs),
                (*before, *(said.kept_logprobs or said.logprobs)),
                (said.policy_version,),
            ),
        )

    def keep(self, item: Attempt | DesignReply) -> None:
        """Keep a reply, or what became of it."""
        if isinstance(item, DesignReply):
            self._keep_reply(item)
        else:
            self._keep_attempt(item)

    def _keep_reply(self, reply: DesignReply) -> None:
        request, completion = reply.request, reply.completion
        _, epoch, environment, attempt = request.key.split("/")
        if reply.program is not None:
            self._store.put_program(reply.program)
        self._store.put("replies", {
            "key": request.key, "epoch": int(epoch), "environment": int(environment), "attempt": int(attempt),
            "setting": request.setting, "skill": request.skill, "difficulty": request.difficulty,
            "document": request.document.id if request.document else "", "domain": request.domain,
            "variant": request.variant, "is_repair": int(request.repair is not None),
            "num_examples": len(request.positives) + (request.negative is not None), "seed": request.seed,
            "prompt": msgspec.json.encode(reply.messages).decode(), "text": storable(reply.text),
            "error": storable(reply.error), "hint": storable(reply.hint), "origin": json.dumps(reply.origin),
            **_columns(reply.program),
            "completion": None if completion is None else _pack(replace(completion, seconds=0.0)),
            "prompt_ids": None if reply.prompt_ids is None else _pack(reply.prompt_ids),
            "prompt_tokens": completion.prompt_tokens if completion else 0,
            "completion_tokens": completion.completion_tokens if completion else 0,
            "policy_version": completion.policy_version if completion else 0,
            "model_seconds": completion.seconds if completion else 0.0, "written_at": time.time(),
        })  # fmt: skip

    def _keep_attempt(self, attempt: Attempt) -> None:
        if attempt.program is not None:
            self._store.put_program(attempt.program)
        findings = {**attempt.to_json(), "seconds": 0.0}
        self._store.put("attempts", {
            "key": attempt.request.key, "outcome": attempt.outcome, **_columns(attempt.program),
            "findings": json.dumps(findings), "check_seconds": attempt.seconds,
        })  # fmt: skip


def _columns(program: Program | None) -> dict[str, str]:
    if program is None:
        return {"digest": "", "manifest": ""}
    return {"digest": program.digest, "manifest": program.manifest.to_toml(program.digest)}
