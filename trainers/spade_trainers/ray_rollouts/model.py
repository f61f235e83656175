"""The model ``ray:SPEC``: an engine ``SPEC`` in each of many workers, and whole plays with it there.

A rollout with this model sends orders with their programs to the workers, whose sandboxes and engines play them; other
requests (the designer's, hints) are answered by the workers' engines. Each play and each request has a seed of its own,
so what comes back is what one process would give, up to the rounding of other batches.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from spade_gym.envs.episode import as_count
from spade_gym.models.base import Completion, ModelError, ModelRequest
from spade_gym.models.chat import ChatFormat, chat_format_of
from spade_gym.rollout.rollout import Counts
from spade_gym.sandbox.base import Isolation, Limits
from spade_trainers.ray_rollouts.cluster import Cluster
from spade_trainers.ray_rollouts.wire import PlayTask, completions_of, packed, plays_of

if TYPE_CHECKING:
    from spade_gym.rollout.play import Play, PlayOrder
    from spade_gym.rollout.player_settings import PlayerSettings
    from spade_gym.rollout.rollout import Progress

#: Engines of whose chats this process must know the tokens, and those that do not tell theirs.
_WITH_TOKENS, _WITHOUT = ("transformers", "vllm"), ("openai", "recorded")


class RayModel:
    """A :class:`spade_gym.models.base.LanguageModel` that plays by itself.

    Args:
        spec: Of the workers' engines: ``transformers:PATH``, ``vllm:PATH``, ``openai:URL#MODEL`` or ``recorded:PATH``.
        workers: How many.
        cpus: Of each, as Ray counts them.
        gpus: Of each.
        address: Of a cluster that runs, ``auto`` for the one of this machine; "" starts one here.
        orders_per_task: Plays that a worker gets at a time; what a dead worker had of them is played again.
        options: Of the engine, by name.

    Attributes:
        name: For reports and manifests.
        chat_format: As the workers' engines have it.
        max_context: Likewise.
        policy_version: Of the weights.

    Raises:
        ModelError: Ray is missing, an engine cannot be opened, or a setting is out of range.
    """

    def __init__(
        self,
        spec: str,
        *,
        workers: int = 1,
        cpus: float = 1,
        gpus: float = 0,
        address: str = "",
        orders_per_task: int = 32,
        options: dict[str, Any] | None = None,
    ) -> None:
        self._orders_per_task = as_count("orders_per_task", orders_per_task)
        self.chat_format = _chat_format(spec, options or {})
        self._cluster = Cluster(spec, options or {}, num_workers=workers, cpus=cpus, gpus=gpus, address=address)
        facts = self._cluster.facts
        self.name = f"ray:{facts.name}"
        self.max_context: int | None = facts.max_context
        self.policy_version = facts.policy_version
        self._waiting: dict[str, ModelRequest] = {}
        self._answers: Iterator[tuple[int, bytes]] = iter(())
        self._asked: set[str] = set()

    @property
    def cluster(self) -> Cluster:
        """The workers."""
        return self._cluster

    # ---- whole plays

    def stream_plays(
        self,
        orders: Iterable[PlayOrder],
        *,
        settings: PlayerSettings,
        isolation: Isolation | int | str | None = None,
        limits: Limits | None = None,
        max_in_flight: int = 1024,
        max_sessions: int = 64,
        in_order: bool = True,
        progress: Progress | None = None,
    ) -> Generator[Play]:
        """Have the workers play orders and yield the plays as they come back; see ``rollout.stream_plays``.

        Args:
            orders: All are read before the first is played; their keys are unique.
            settings: How to play.
            isolation: Of the programs.
            limits: What programs may use.
            max_in_flight: Most plays under way, in all workers together.
            max_sessions: Most programs under way in one worker.
            in_order: As there, within a worker.
            progress: Told the counts whenever a task is done.

        Raises:
            ModelError: A worker's engine fails, or a task outlived three workers.
            SandboxError: A worker's sandbox is broken.
            ValueError: Two orders share a key.
        """
        self._cluster.check_open()
        wanted = list(orders)
        if len({order.key for order in wanted}) < len(wanted):
            raise ValueError("the keys of the orders must be unique, because a play is known by its key")
        level = Isolation.parse(isolation)
        share = max(1, as_count("max_in_flight", max_in_flight) // self._cluster.num_workers)
        size = min(self._orders_per_task, max(1, -(-len(wanted) // (2 * self._cluster.num_workers))))
        tasks = [
            PlayTask(
                wanted[start : start + size],
                settings,
                None if level is None else int(level),
                limits or Limits(),
                share,
                as_count("max_sessions", max_sessions),
                in_order,
            )
            for start in range(0, len(wanted), size)
        ]
        return self._played([packed(task) for task in tasks], progress)

    def _played(self, tasks: list[bytes], progress: Progress | None) -> Generator[Play]:
        counts = Counts()
        for _, data in self._cluster.each("play", tasks):
            plays = plays_of(data)
            counts = _counted(counts, plays)
            if progress is not None:
                progress(counts)
            yield from plays

    # ---- single requests

    def submit(self, request: ModelRequest) -> None:
        """Take a request; the workers get it with the next ``collect``.

        Raises:
            ModelError: Its key is in flight, its prompt fills the context, or the workers are closed.
        """
        self._cluster.check_open()
        if request.key in self._waiting or request.key in self._asked:
            raise ModelError(f"the request {request.key!r} is in flight already; keys must be unique")
        num_prompt = len(request.prompt_ids or ())
        if self.max_context is not None and num_prompt >= self.max_context:
            raise ModelError(
                f"the prompt of {request.key!r} has {num_prompt} tokens; of a context of {self.max_context} at most "
                f"{self.max_context - 1} fit"
            )
        self._waiting[request.key] = request

    def collect(self) -> list[Completion]:
        """Wait until a worker has answered a share of the requests; return its completions."""
        if not self._asked:
            if not self._waiting:
                return []
            requests = list(self._waiting.values())
            shares = [requests[place :: self._cluster.num_workers] for place in range(self._cluster.num_workers)]
            self._answers = self._cluster.each("complete", [packed(share) for share in shares if share])
            self._asked, self._waiting = set(self._waiting), {}
        try:
            _, data = next(self._answers)
        except BaseException:
            self._asked = set()
            raise
        completions = completions_of(data)
        self._asked.difference_update(completion.key for completion in completions)
        return completions

    def update_weights(self, version: int, tensors: Iterable[tuple[str, Any]] = ()) -> None:
        """Give the engines of all workers new weights.

        Args:
            version: Of these weights.
            tensors: Named as in ``model.state_dict()``; all of them, since the workers have their own.

        Raises:
            ModelError: Requests are in flight, or an engine takes no weights, or others.
        """
        from safetensors.torch import save

        if self._asked or self._waiting:
            raise ModelError("weights change between requests, but some are in flight; collect them first")
        held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors}
        self._cluster.update_weights(version, save(held))
        self.policy_version = version

    def close(self) -> None:
        """End the workers."""
        self._waiting, self._asked = {}, set()
        self._cluster.close()


def open_ray(spec: str, **settings: Any) -> RayModel:
    """Open the model ``ray:SPEC``, the entry point of ``spade_gym.models``.

    Args:
        spec: Of the workers' engines.
        **settings: See :class:`RayModel`.

    Raises:
        ModelError: It cannot be opened.
    """
    try:
        return RayModel(spec, **settings)
    except (TypeError, ValueError) as error:
        raise ModelError(f"ray:{spec}: {error}") from error


def _counted(counts: Counts, plays: list[Play]) -> Counts:
    return counts._replace(
        plays=counts.plays + len(plays),
        faulty=counts.faulty + sum(play.status != "ok" for play in plays),
        steps=counts.steps + sum(play.length for play in plays),
        tokens=counts.tokens + sum(play.completion_tokens for play in plays),
    )


def _chat_format(spec: str, options: dict[str, Any]) -> ChatFormat | None:
    name, _, path = spec.partition(":")
    if name in _WITHOUT:
        return None
    if name not in _WITH_TOKENS:
        raise ModelError(
            f"ray: takes {', '.join(f'{known}:…' for known in (*_WITH_TOKENS, *_WITHOUT))}, whose chats this process "
            f"can read, not {spec!r}"
        )
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelError(f"transformers has no tokenizer {path!r}: {error}") from error
    return chat_format_of(tokenizer, keep_thinking=bool(options.get("keep_thinking", False)))
