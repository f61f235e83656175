"""Workers of a Ray cluster: each piece of work is done once, by whoever is free, and again where a worker died.

A worker has one piece at a time and the next one waiting, so that it never idles. When it dies (killed, out of memory,
its machine gone), another is started in its place, with the weights that all had last, and its pieces go back to the
queue. What a dead worker finished but could not hand over is done again and counts once. At the third death over one
piece the work ends with an error: no piece is left out.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spade_gym.envs.episode import as_count
from spade_gym.models.base import ModelError
from spade_trainers.ray_rollouts.wire import Facts, facts_of
from spade_trainers.ray_rollouts.worker import Worker

_MOST_DEATHS = 3
#: Pieces that a worker has at a time: one under way and one waiting.
_AHEAD = 2


class _Weights(NamedTuple):
    version: int
    tensors: Any


class Cluster:
    """Workers with an engine each.

    Args:
        spec: Of the engine, as for ``open_model``; opened in every worker.
        settings: Of the engine.
        num_workers: How many.
        cpus: Of each worker, as Ray counts them.
        gpus: Of each worker.
        address: Of a cluster that runs, ``auto`` for the one of this machine; "" starts one here.

    Raises:
        ModelError: Ray is missing or cannot be reached, or an engine cannot be opened.
    """

    def __init__(
        self,
        spec: str,
        settings: Mapping[str, Any],
        *,
        num_workers: int = 1,
        cpus: float = 1,
        gpus: float = 0,
        address: str = "",
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise ModelError(f"ray: needs Ray ({error}): pip install 'spade-gym[ray]'") from error
        as_count("num_workers", num_workers)
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        if self._started:
            _start(ray, address)
        self._make = ray.remote(Worker).options(num_cpus=cpus, num_gpus=gpus, max_concurrency=1).remote
        self._told = spec, json.dumps(dict(settings))
        self._weights: _Weights | None = None
        self._closed = False
        self._workers: list[Any] = [self._make(*self._told) for _ in range(num_workers)]
        try:
            self._facts = [facts_of(data) for data in self._get([worker.facts.remote() for worker in self._workers])]
        except ray.exceptions.RayActorError as error:
            self.close()
            raise ModelError(f"a Ray worker cannot open {spec!r}: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def num_workers(self) -> int:
        """How many there are."""
        return len(self._workers)

    @property
    def facts(self) -> Facts:
        """What the engines say of themselves."""
        return self._facts[0]

    def process_ids(self) -> list[int]:
        """Return the process number of each worker on its machine."""
        return list(self._get([worker.process_id.remote() for worker in self._workers]))

    def each(self, method: str, pieces: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """Do pieces of work and yield the number and result of each one as it is done, once.

        Args:
            method: Of ``Worker``.
            pieces: Its arguments.

        Raises:
            ModelError: A worker refused a piece, or a piece outlived three workers.
            SpadeError: As the worker raised it.
        """
        self.check_open()
        died = tuple(
            getattr(self._ray.exceptions, name)
            for name in ("ActorDiedError", "ActorUnavailableError", "ObjectLostError")
        )
        waiting, deaths = deque(range(len(pieces))), dict.fromkeys(range(len(pieces)), 0)
        under_way: dict[Any, tuple[int, int]] = {}
        try:
            while waiting or under_way:
                self._hand_out(method, pieces, waiting, under_way)
                (ready, *_), _ = self._ray.wait(list(under_way), num_returns=1)
                number, place = under_way[ready]
                try:
                    result = self._ray.get(ready)
                except died as error:
                    lost = self._taken_back(place, under_way)
                    deaths[lost[0]] += 1  # that was under way; the others were waiting
                    if deaths[lost[0]] >= _MOST_DEATHS:
                        raise ModelError(
                            f"{_MOST_DEATHS} workers died at the same piece of work (number {lost[0]}): {error}"
                        ) from error
                    waiting.extendleft(reversed(lost))
                    self._replace(place)
                    continue
                except self._ray.exceptions.RayTaskError as error:
                    raise _cause(error) from error
                del under_way[ready]
                yield number, result
        finally:
            for reference in under_way:  # left early: nobody wants these any more
                self._ray.cancel(reference, force=False)

    def update_weights(self, version: int, tensors: bytes) -> None:
        """Give all engines new weights, and those that will take the place of dead workers, too.

        Args:
            version: Of the weights.
            tensors: A file of safetensors; Ray keeps it once a machine.

        Raises:
            ModelError: An engine takes none, or others.
        """
        self.check_open()
        self._weights = _Weights(version, self._ray.put(tensors))
        for place, worker in enumerate(self._workers):
            try:
                self._get([worker.update_weights.remote(*self._weights)])
            except self._ray.exceptions.RayActorError:
                self._replace(place)

    def close(self) -> None:
        """End the workers, and the cluster where it was started here."""
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            self._ray.kill(worker)
        self._workers.clear()
        if self._started:
            self._ray.shutdown()

    def check_open(self) -> None:
        """Refuse to work after :meth:`close`.

        Raises:
            ModelError: It was called.
        """
        if self._closed:
            raise ModelError("the Ray workers are closed; open them again")

    # ---- workers

    def _hand_out(
        self, method: str, pieces: Sequence[bytes], waiting: deque[int], under_way: dict[Any, tuple[int, int]]
    ) -> None:
        """Give work to whoever has least of it."""
        while waiting:
            loads = [0] * len(self._workers)
            for _, place in under_way.values():
                loads[place] += 1
            place = loads.index(min(loads))
            if loads[place] >= _AHEAD:
                return
            number = waiting.popleft()
            reference = getattr(self._workers[place], method).remote(pieces[number])
            under_way[reference] = number, place

    @staticmethod
    def _taken_back(place: int, under_way: dict[Any, tuple[int, int]]) -> list[int]:
        """Remove what a worker had; return the numbers, that of the piece under way first."""
        mine = [reference for reference, (_, owner) in under_way.items() if owner == place]
        return [under_way.pop(reference)[0] for reference in mine]

    def _replace(self, place: int) -> None:
        """Start a worker in the place of one that died or does not answer; never have both."""
        self._ray.kill(self._workers[place])
        self._workers[place] = self._make(*self._told)
        if self._weights is not None:
            self._get([self._workers[place].update_weights.remote(*self._weights)])

    def _get(self, references: list[Any]) -> Any:
        try:
            return self._ray.get(references)
        except self._ray.exceptions.RayTaskError as error:
            raise _cause(error) from error


def _start(ray: Any, address: str) -> None:
    try:
        if address:
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(address="local", include_dashboard=False, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ModelError(f"no Ray cluster at {address or 'this machine'}: {error}") from error


def _cause(error: Any) -> Exception:
    """What a worker raised, as this process would have raised it."""
    from spade_gym.errors import SpadeError

    cause = error.cause
    if isinstance(cause, SpadeError):
        return cause
    return ModelError(f"a Ray worker failed: {type(cause).__name__}: {cause}")
