"""What does it cost to play through the environment wrapper, or through the server of many actors?"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from typing import Any

import gymnasium
import numpy as np

from spade_gym.curriculum import preset
from spade_gym.curriculum.curriculum_env import CurriculumEnv
from spade_gym.curriculum.generators import Parameters
from spade_gym.curriculum.service import Client, CurriculumServer
from spade_gym.curriculum.task import Outcome

#: What this project allows: µs of processor time of the server for an ask and its tell, and µs of the wrapper a step.
SERVED_MICROSECONDS, WRAPPER_MICROSECONDS = 400.0, 2.0
NUM_ACTORS, _PROCESSES = 64, 4
_EPISODE = 1000


def measure_served(name: str, *, num_pairs: int = 6400) -> dict[str, Any]:
    """Measure the server's processor time, the curriculum's work included, while 64 actors ask and tell at once.

    Args:
        name: Of the preset.
        num_pairs: Asks with their tells, of all actors together; at least one each.

    Returns:
        ``actors``, ``processes`` that they are in, ``pairs``, and ``served_us`` of one pair.
    """
    each = max(1, num_pairs // NUM_ACTORS)
    curriculum = preset.make(name, generator=_family())
    with CurriculumServer(curriculum) as server:
        context = multiprocessing.get_context("spawn")
        arguments = (server.address, NUM_ACTORS // _PROCESSES, each)
        processes = [context.Process(target=_act_many, args=arguments) for _ in range(_PROCESSES)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        cost = server.cost
    if cost.num_asks != each * NUM_ACTORS:
        raise RuntimeError(f"actors failed: {cost.num_asks} asks arrived of {each * NUM_ACTORS}")
    return {
        "actors": NUM_ACTORS, "processes": _PROCESSES, "pairs": cost.num_asks,
        "served_us": round(1e6 * cost.cpu_seconds / cost.num_asks, 1),
    }  # fmt: skip


def measure_wrapper(name: str, *, num_episodes: int = 5, repetitions: int = 9) -> float:
    """Measure what ``CurriculumEnv`` adds to a step of an environment that does nothing, in µs.

    Args:
        name: Of the preset.
        num_episodes: Of 1,000 steps, in a repetition.
        repetitions: The result is the median of the differences to the bare environment.
    """
    bare = Still()
    wrapped = CurriculumEnv(Still, preset.make(name, generator=Parameters({"x": (0, 9)})), success=1.0)
    differences = []
    for _ in range(repetitions):
        seconds = [_seconds_per_step(env, num_episodes) for env in (bare, wrapped)]
        differences.append(seconds[1] - seconds[0])
    wrapped.close()
    return round(1e6 * statistics.median(differences), 2)


class Still(gymnasium.Env[np.ndarray[Any, Any], int]):
    """Shows the same for 1,000 steps."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]
        self._observation = np.zeros(4, dtype=np.float32)
        self._left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin."""
        super().reset(seed=seed)
        self._left = _EPISODE
        return self._observation, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count."""
        self._left -= 1
        return self._observation, 0.0, not self._left, False, {}


def _seconds_per_step(env: gymnasium.Env[Any, Any], num_episodes: int) -> float:
    total = 0.0
    for _ in range(num_episodes):
        env.reset()
        start = time.perf_counter()
        for _ in range(_EPISODE):
            env.step(0)
        total += time.perf_counter() - start
    return total / (num_episodes * _EPISODE)


def _family() -> Parameters:
    return Parameters({"x": (0, 10**9), "y": (0.0, 1.0)})


def _act_many(address: str, num_actors: int, num_pairs: int) -> None:
    threads = [threading.Thread(target=_act, args=(address, num_pairs, number)) for number in range(num_actors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _act(address: str, num_pairs: int, number: int) -> None:
    client = Client(address)
    wins = (np.random.default_rng(number).random(num_pairs) < 0.5).tolist()
    for won in wins:
        ticket = client.ask()
        client.tell(Outcome(ticket.id, ticket.seeds[0], float(won), won, 1))
    client.close()
