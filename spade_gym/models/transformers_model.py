"""A model of transformers in this process, on a CPU or one GPU, with a decode loop of its own.

Requests queue in the order of their submission. ``collect`` decodes until at least one of them ends; whenever enough
places are free, the next ones in the queue enter. So who is decoded beside whom depends on the order of the calls of
``submit`` and ``collect`` alone. What a request gets is computed from its own tokens and seed; a batch changes its
logits by rounding only (about 1e-5 in fp32, 1e-2 in bf16), which can change a token where two were about to tie.

The weights may be shared with a trainer in the same process: ``model`` is the transformers model, used in evaluation
mode while ``collect`` runs and put back afterwards; call ``update_weights`` after each change.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from spade_gym.models.base import Completion, Finish, ModelError, ModelRequest
from spade_gym.models.chat import ChatFormat, chat_format_of
from spade_gym.models.model_facts import context_of, end_ids_of

if TYPE_CHECKING:
    from spade_gym.models.decoder import Row

#: New rows wait until this share of the batch is free: reading a prompt costs a whole pass, however short it is.
_ADMIT_SHARE = 8
#: Tokens beyond its prompt for which a row that enters must find room in the cache.
_HEADROOM = 256


class TransformersModel:
    """Decodes with a causal language model of transformers; see the module.

    Args:
        model: Loaded, on its device, attention ``sdpa`` or ``eager``.
        tokenizer: Its tokenizer; with a chat template, ``chat_format`` is made of it.
        name: For reports and manifests.
        max_batch: Most requests decoded together.
        max_context: Most tokens of a prompt and its completion; ``None`` for what the model was made for.
        cache_gib: Memory for keys and values of requests under way.
        reuse_tokens: Tokens of earlier requests whose keys and values are remembered for prompts that begin alike
            (the next turn of a chat, another play of a program); 0 is off.
        end_ids: Tokens that end a completion; ``None`` for those of the model's generation settings and tokenizer.
        keep_thinking: As in ``ChatFormat``.

    Raises:
        ModelError: The model cannot be driven, or a setting is out of range.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "transformers",
        max_batch: int = 32,
        max_context: int | None = None,
        cache_gib: float = 4.0,
        reuse_tokens: int = 16384,
        end_ids: Iterable[int] | None = None,
        keep_thinking: bool = False,
    ) -> None:
        from spade_gym.models.completion_end import CompletionEnd
        from spade_gym.models.decoder import Decoder

        for word, value, least in (("max_batch", max_batch, 1), ("reuse_tokens", reuse_tokens, 0)):
            if value < least:
                raise ModelError(f"{word} must be at least {least}, got {value}")
        self.name = name
        self.model, self.tokenizer = model, tokenizer
        self.policy_version = 0
        self.max_context: int | None = context_of(model, max_context)
        self.chat_format: ChatFormat | None = chat_format_of(tokenizer, keep_thinking=keep_thinking)
        self._end = CompletionEnd(tokenizer, end_ids_of(model, tokenizer) if end_ids is None else end_ids)
        self._max_batch = max_batch
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])
        self._waiting: deque[Row] = deque()
        self._keys: set[str] = set()
        self._submitted = 0
        self._closed = False
        with self._evaluating():
            self._decoder = Decoder(model, reuse_tokens=reuse_tokens)
        self._max_cached = int(cache_gib * 2**30) // self._decoder.bytes_per_token

    @classmethod
    def open(
        cls, path: str, *, device: str | None = None, dtype: str | None = None, **settings: Any
    ) -> TransformersModel:
        """Load a model.

        Args:
            path: A folder with a model, or its id on the hub that transformers is set up for.
            device: ``cpu``, ``cuda`` or ``cuda:1``; ``None`` for ``cuda`` where there is one.
            dtype: ``float32``, ``bfloat16`` or ``float16``; ``None`` for ``float32`` on a CPU, else ``bfloat16``.
            **settings: See the class.

        Raises:
            ModelError: A package is missing, or there is no such model.
        """
        from spade_gym.models.load_transformers import load

        model, tokenizer = load(path, device=device, dtype=dtype)
        return cls(model, tokenizer, **{"name": f"transformers:{path}", **settings})

    def submit(self, request: ModelRequest) -> None:
        """Take a request; it is decoded by ``collect``.

        Raises:
            ModelError: Its key is in flight, it has no token ids or foreign ones, its prompt fills the context, its
                seed is negative, or the model is closed.
        """
        from spade_gym.models.decoder import Row

        self._check(request)
        rng = np.random.Generator(np.random.PCG64(request.seed))
        self._waiting.append(Row(request, self._submitted, time.perf_counter(), list(request.prompt_ids or ()), rng))
        self._keys.add(request.key)
        self._submitted += 1

    def collect(self) -> list[Completion]:
        """Decode until at least one request ends; return those that did in the order of their submission.

        Raises:
            ModelError: The device ran out of memory.
        """
        if not self._keys:
            return []
        with self._evaluating():
            done: list[Completion] = []
            while not done:
                self._admit()
                done = self._step()
        self._keys.difference_update(completion.key for completion in done)
        return done

    def update_weights(self, version: int, tensors: Iterable[tuple[str, Any]] = ()) -> None:
        """Take over new weights, all or none.

        Args:
            version: Of these weights; stands in the completions that they sample.
            tensors: Named as in ``model.state_dict()``; none when a trainer has changed the model's own.

        Raises:
            ModelError: Requests are in flight, or a name or shape is wrong; nothing has changed then.
        """
        import torch

        if self._keys:
            raise ModelError(
                f"weights change between requests, but {len(self._keys)} are in flight; collect them first"
            )
        own, items = self.model.state_dict(), list(tensors)
        for name, tensor in items:
            if name not in own or own[name].shape != tensor.shape:
                allowed = f"shape {tuple(own[name].shape)}" if name in own else "a name of model.state_dict()"
                raise ModelError(f"weight {name!r} of shape {tuple(tensor.shape)} does not fit: expected {allowed}")
        with torch.no_grad():
            for name, tensor in items:
                own[name].copy_(tensor)
        self._decoder.prefixes.clear()
        self.policy_version = version

    def close(self) -> None:
        """Give up what is in flight and let go of the weights."""
        self._closed = True
        self._waiting.clear()
        self._keys.clear()
        self.model = self._decoder = None  # type: ignore[assignment]

    def _check(self, request: ModelRequest) -> None:
        if self._closed:
            raise ModelError(f"{self.name} is closed; open it again")
        if request.key in self._keys:
            raise ModelError(f"the request {request.key!r} is in flight already; keys must be unique")
        if not request.prompt_ids:
            raise ModelError(
                f"the request {request.key!r} has no prompt_ids; make it with spade_gym.models.chat.start_chat"
            )
        if not all(0 <= token < self._vocabulary for token in request.prompt_ids):
            raise ModelError(f"the request {request.key!r} has token ids outside 0..{self._vocabulary - 1}")
        if request.seed < 0:
            raise ModelError(f"a seed must not be negative, got {request.seed} in the request {request.key!r}")
        num_prompt, room = len(request.prompt_ids), self.max_context
        if room is not None and num_prompt >= room:
            raise ModelError(
                f"the prompt of {request.key!r} has {num_prompt} tokens; of a context of {room} at most {room - 1} fit"
            )
        most = num_prompt + request.sampling.max_tokens
        if min(most, most if room is None else room) > self._max_cached:
            raise ModelError(
                f"{request.key!r} may take {most} tokens and the cache holds {self._max_cached}; raise cache_gib"
            )

    def _admit(self) -> None:
        """Let waiting rows enter, in order, as far as places and memory allow."""
        rows = self._decoder.rows
        entering: list[Row] = []
        free = self._max_batch - len(rows)
        if rows and free < min(len(self._waiting), -(-self._max_batch // _ADMIT_SHARE)):
            return
        longest = max((len(row.context) for row in rows), default=0)
        while self._waiting and len(entering) < free:
            row = self._waiting[0]
            longest = max(longest, len(row.context) + min(_HEADROOM, row.request.sampling.max_tokens))
            taken = len(rows) + len(entering)
            if taken and (taken + 1) * longest > self._max_cached:
                break
            entering.append(self._waiting.popleft())
        self._decoder.add(entering)

    def _step(self) -> list[Completion]:
        """Sample one token for every row; return the completions that are over."""
        self._make_room()
        rows = list(self._decoder.rows)
        try:
            spoilt = self._sample(rows)
        except MemoryError as error:
            raise ModelError(f"out of memory with {len(rows)} rows; lower max_batch or cache_gib") from error
        over: list[tuple[Row, Finish]] = [(row, "error") for row in spoilt]
        for row in rows:
            if row not in spoilt and (finish := self._finish(row)):
                over.append((row, finish))
        self._decoder.remove([row for row, _ in over], spoilt=spoilt)
        return [self._completion(row, finish) for row, finish in sorted(over, key=lambda item: item[0].number)]

    def _make_room(self) -> None:
        """Send the youngest rows back to the head of the queue, with what they have, until the others fit."""
        rows = self._decoder.rows
        while len(rows) > 1 and len(rows) * max(len(row.context) for row in rows) > self._max_cached:
            youngest = max(rows, key=lambda row: row.number)
            self._decoder.remove([youngest])
            self._waiting.appendleft(youngest)

    def _sample(self, rows: list[Row]) -> list[Row]:
        """Append one token to every row; return those whose logits are not finite."""
        from spade_gym.models.sampler import draw

        logits, spoilt = self._decoder.step(), []
        groups: dict[tuple[float, float, int], list[int]] = {}
        for place, row in enumerate(rows):
            sampling = row.request.sampling
            groups.setdefault((sampling.temperature, sampling.top_p, sampling.top_k), []).append(place)
        for places in groups.values():
            drawn = draw(
                logits if len(places) == len(rows) else logits[places],
                rows[places[0]].request.sampling,
                [rows[place].rng.random() for place in places],
            )
            for place, token, logprob, kept, usable in zip(places, *drawn, strict=True):
                row = rows[place]
                if not usable:
                    spoilt.append(row)
                    continue
                row.context.append(token)
                row.logprobs.append(logprob)
                row.kept_logprobs.append(kept)
        return spoilt

    def _finish(self, row: Row) -> Finish | None:
        room = 1 if self.max_context is None else self.max_context - len(row.context)
        return self._end.finish(row.ids, row.request.sampling, room=room)

    def _completion(self, row: Row, finish: Finish) -> Completion:
        ids = row.ids
        return Completion(
            key=row.request.key,
            text=self._end.text(ids),
            finish=finish,
            ids=tuple(ids),
            logprobs=tuple(row.logprobs),
            kept_logprobs=tuple(row.kept_logprobs),
            prompt_tokens=len(row.request.prompt_ids or ()),
            completion_tokens=len(ids),
            policy_version=self.policy_version,
            error="the logits are not finite (NaN or infinite): the weights are damaged" if finish == "error" else "",
            seconds=time.perf_counter() - row.submitted,
        )

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        import torch

        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                yield
        except torch.OutOfMemoryError as error:
            raise ModelError(f"the device ran out of memory: {error}; lower max_batch or cache_gib") from error
        finally:
            self.model.train(training)
