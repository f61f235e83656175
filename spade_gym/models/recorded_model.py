"""A model that says again what was said before: for tests, demonstrations and repeating a run.

It answers a request by its key, whatever the prompt; so the same recipe and the same recording give the same run, also
after an interruption. It computes nothing, and what it does not know is an error.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spade_gym.models.base import Completion, ModelError, ModelRequest
from spade_gym.models.recordings import read_recording

if TYPE_CHECKING:
    from spade_gym.models.chat import ChatFormat


class RecordedModel:
    """Replays completions; satisfies :class:`~spade_gym.models.base.LanguageModel`.

    Args:
        completions: By the keys of requests; or a sequence, handed out in the order of submission (which a run that is
            interrupted and started again does not repeat).
        name: For reports and manifests.
        chat_format: Of the model that was recorded, where chats should be token-exact; needs completions with ids.
        max_context: Of the model that was recorded.
    """

    def __init__(
        self,
        completions: Mapping[str, Completion] | Sequence[Completion],
        *,
        name: str = "recorded",
        chat_format: ChatFormat | None = None,
        max_context: int | None = None,
    ) -> None:
        self.name = name
        self.chat_format = chat_format
        self.max_context = max_context
        self._by_key = dict(completions) if isinstance(completions, Mapping) else None
        self._in_order = () if isinstance(completions, Mapping) else tuple(completions)
        self._num_used = 0
        self._pending: dict[str, Completion] = {}
        self._closed = False

    @classmethod
    def open(cls, path: Path | str, *, by: Literal["key", "order"] = "key", name: str | None = None) -> RecordedModel:
        """Read a recording.

        Args:
            path: A folder with replies as ``.md`` files, each named by its key (``design/0/3/0.md``); a JSONL file of
                completions; or the folder of an earlier run, or its ``run.db``.
            by: ``order`` hands the replies out in the order of their file names or lines.
            name: For reports and manifests.

        Raises:
            ModelError: There is nothing to be read, or it is damaged.
        """
        if by not in ("key", "order"):
            raise ModelError(f"by must be 'key' or 'order', got {by!r}")
        completions = read_recording(Path(path))
        chosen = completions if by == "key" else list(completions.values())
        return cls(chosen, name=name or f"recorded:{Path(path).name}")

    def submit(self, request: ModelRequest) -> None:
        """Look the answer up; ``collect`` returns it.

        Raises:
            ModelError: Nothing was recorded under this key, the recording is used up, the key is in flight already, or
                the model is closed.
        """
        if self._closed:
            raise ModelError(f"{self.name} is closed; open it again")
        if request.key in self._pending:
            raise ModelError(f"the request {request.key!r} is in flight already; keys must be unique")
        said = self._next(request.key) if self._by_key is None else self._known(request.key, self._by_key)
        if self.chat_format is not None and said.ids is None:
            raise ModelError(f"{self.name}: {request.key!r} was recorded without token ids; leave chat_format out")
        self._pending[request.key] = dataclasses.replace(said, key=request.key, seconds=0.0)

    def collect(self) -> list[Completion]:
        """Return the answers to all that was submitted, in that order; ``[]`` when nothing is in flight."""
        completions = list(self._pending.values())
        self._pending.clear()
        return completions

    def close(self) -> None:
        """Give up what is in flight."""
        self._closed = True
        self._pending.clear()

    def _known(self, key: str, completions: Mapping[str, Completion]) -> Completion:
        if key in completions:
            return completions[key]
        near = difflib.get_close_matches(key, list(completions)[:10_000], n=1)
        ask = f"; did you mean {near[0]!r}?" if near else ""
        raise ModelError(f"{self.name} holds no reply to {key!r} among its {len(completions)}{ask}")

    def _next(self, key: str) -> Completion:
        if self._num_used >= len(self._in_order):
            raise ModelError(
                f"{self.name} holds {len(self._in_order)} replies and all are used; {key!r} asks for one more"
            )
        self._num_used += 1
        return self._in_order[self._num_used - 1]
