"""What a rollout costs beside the model: environment steps a second, its share of the time, and memory.

Plays go through the whole path: orders, prompts, chats (as token ids, and as text), requests, actions, the sandbox,
records. Only the model is a fake that answers at once (``rollout_model.py``).
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from spade_gym.bench.machine import machine_and_date
from spade_gym.bench.rollout_engine import Ratio, tokens_ratio
from spade_gym.bench.rollout_model import FixedReplyModel
from spade_gym.programs.program import Manifest, Program
from spade_gym.rollout.play import PlayOrder
from spade_gym.rollout.rollout import stream_plays

#: Plays under way, programs among which they are divided, and steps of one play.
IN_FLIGHT, NUM_PROGRAMS, STEPS_PER_PLAY = 256, 8, 16
#: How long the slow model takes a call, and how many plays it answers in one.
CALL_SECONDS, CALL_BATCHES = 0.020, (1, 4, 16)

_REPLY = "I look around. \\boxed{look}"
_SOURCE = """
class RoomEnv:
    def __init__(self, max_turns=NUM_STEPS, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.turn = 0
        return "You are in a small room with one door.", {}

    def step(self, action):
        self.turn += 1
        done = self.turn >= self.max_turns
        return "You are still in a small room with one door.", float(done), done, False, {}
"""


def _orders(num_plays: int, num_steps: int, num_programs: int) -> Iterator[PlayOrder]:
    source = _SOURCE.replace("NUM_STEPS", str(num_steps))
    programs = [
        Program(f"{source}\n# {number}\n", Manifest(name="Room", setting="multi_turn", class_name="RoomEnv"))
        for number in range(num_programs)
    ]
    for number in range(num_plays):
        yield PlayOrder(f"play/0/{number % num_programs}/plain/{number}", programs[number % num_programs], number)


def steps_per_second(*, token_exact: bool, num_plays: int) -> float:
    """Environment steps a second through the whole path, with a model that answers at once."""
    model = FixedReplyModel(_REPLY, token_exact=token_exact)
    start, num_steps = time.perf_counter(), 0
    for play in stream_plays(_orders(num_plays, STEPS_PER_PLAY, NUM_PROGRAMS), model, max_in_flight=IN_FLIGHT):
        num_steps += play.length
    return num_steps / (time.perf_counter() - start)


class Share(NamedTuple):
    """What a rollout takes of the time beside a slow model.

    Attributes:
        wall: Share of the time that is not the model's.
        processor: Own processor time over it and the model's time: what ``wall`` would be if nobody else used the
            machine and the programs took no time.
    """

    wall: float
    processor: float


def bookkeeping_share(*, batch: int, num_plays: int) -> Share:
    """The share when a call of the model takes 20 ms and answers ``batch`` plays; starting workers is part of it."""
    model = FixedReplyModel(_REPLY, token_exact=True, seconds=CALL_SECONDS, batch=batch)
    start, started = time.perf_counter(), time.process_time()
    for _ in stream_plays(_orders(num_plays, STEPS_PER_PLAY, NUM_PROGRAMS), model, max_in_flight=IN_FLIGHT):
        pass
    wall, processor, slept = time.perf_counter() - start, time.process_time() - started, model.seconds_spent
    return Share(1.0 - slept / wall, processor / (processor + slept))


def memory_growth(num_plays: int) -> int:
    """Growth of this process in kB over many plays of one step, after a tenth of them as a warm-up."""
    plays = stream_plays(
        _orders(num_plays + num_plays // 10, 1, NUM_PROGRAMS),
        FixedReplyModel(_REPLY, token_exact=True),
        max_in_flight=IN_FLIGHT,
    )
    before = 0
    for number, _ in enumerate(plays, 1):
        if number == num_plays // 10:
            before = _resident_kb()
    return _resident_kb() - before


def _resident_kb() -> int:
    gc.collect()
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        repetitions: Medians are over as many runs, with token-exact chats and text in turn.
        num_plays: Plays of one run that counts steps.
        slow_plays: Plays of the slow model for each play that it answers in a call.
        memory_plays: Plays over which memory is watched.
        engine_plays: Plays of SmolLM2, of two turns and 24 tokens each; 0 leaves it out.
    """

    repetitions: int = 3
    num_plays: int = 2048
    slow_plays: int = 8
    memory_plays: int = 100_000
    engine_plays: int = 32

    @classmethod
    def quick(cls) -> Size:
        """Return a size of some seconds: its figures say only that everything runs."""
        return cls(repetitions=1, num_plays=256, slow_plays=1, memory_plays=1_000, engine_plays=0)


def measure(size: Size) -> dict[str, Any]:
    """Run the whole benchmark.

    Returns:
        The figures of ``GOALS`` and what they hold for; a figure that cannot be had is ``None`` with a reason.
    """
    exact, text = [], []
    for _ in range(size.repetitions):
        exact.append(steps_per_second(token_exact=True, num_plays=size.num_plays))
        text.append(steps_per_second(token_exact=False, num_plays=size.num_plays))
    shares = {str(batch): bookkeeping_share(batch=batch, num_plays=size.slow_plays * batch) for batch in CALL_BATCHES}
    ratio = Ratio(None, "not measured: left out")
    if size.engine_plays:
        ratio = tokens_ratio(list(_orders(size.engine_plays, STEPS_PER_PLAY, 2)))
    return {
        "steps_per_second": round(statistics.median(exact)),
        "steps_per_second_text": round(statistics.median(text)),
        "bookkeeping_share": round(shares["1"].wall, 4),
        "bookkeeping_shares": {
            f"{batch} plays a call": {"wall": round(share.wall, 4), "processor": round(share.processor, 4)}
            for batch, share in shares.items()
        },
        "engine_tokens_ratio": None if ratio.value is None else round(ratio.value, 4),
        "engine_tokens_ratio_note": ratio.note,
        "memory_growth_kb": memory_growth(size.memory_plays),
        "in_flight": IN_FLIGHT,
        "programs": NUM_PROGRAMS,
        "steps_per_play": STEPS_PER_PLAY,
        "memory_plays": size.memory_plays,
        **machine_and_date(),
    }


#: The bounds of this project, on 2 cores: name, bound, and whether it is an upper one.
GOALS = (
    ("steps_per_second", 5_000.0, False),
    ("bookkeeping_share", 0.05, True),
    ("engine_tokens_ratio", 0.9, False),
    ("memory_growth_kb", 4_096.0, True),
)
