"""Plays what was ordered: players × environments, many at a time, in one loop.

The loop submits every play's request to the model, takes what is answered, steps the environments of those plays with
one message a program, and submits their next requests. It has no event loop and no threads: an engine with continuous
batching, one with fixed batches and a server differ only in what ``collect`` returns and when.

**Order.** Requests stand in a queue. A *round* is what stands in it when new plays are let in; plays that go on stand
again at its end, and new ones are let in behind them when the round is over. By default answers are acted upon in the
queue's order, so the order of requests depends on the orders alone, whatever came first from a server; a batch of a
local engine is then always the same. ``in_order=False`` acts on whatever is there, which keeps a server busy while one
long reply is awaited; each request has a seed of its own, so what is sampled does not depend on the choice.

**Faults.** A program that fails ends its own plays as faulty, and a reply that the model could not give, or a chat
that its template cannot render, ends that play as aborted: neither is a reward. A broken sandbox, and a request that
the model refuses, raise.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from spade_gym.envs.episode import as_count
from spade_gym.errors import ProgramFault
from spade_gym.models.base import LanguageModel, ModelError
from spade_gym.rollout.gameplay_prompt import read_templates
from spade_gym.rollout.lanes import Exchange, Lanes
from spade_gym.rollout.play import Play, PlayOrder
from spade_gym.rollout.player import Player, Rules
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.sandbox.base import Isolation, Limits


class Counts(NamedTuple):
    """How far a rollout is.

    Attributes:
        plays: Plays that ended.
        faulty: How many of them are faulty or aborted.
        in_flight: Plays under way.
        steps: Actions played.
        tokens: Tokens sampled.
    """

    plays: int = 0
    faulty: int = 0
    in_flight: int = 0
    steps: int = 0
    tokens: int = 0


#: Called after every pass of the loop.
Progress = Callable[[Counts], None]


def stream_plays(
    orders: Iterable[PlayOrder],
    model: LanguageModel,
    *,
    settings: PlayerSettings | None = None,
    isolation: Isolation | int | str | None = None,
    limits: Limits | None = None,
    max_in_flight: int = 1024,
    max_sessions: int = 64,
    in_order: bool = True,
    progress: Progress | None = None,
) -> Generator[Play]:
    """Play orders and yield each play as it ends; nothing of it is kept, so memory does not grow with their number.

    Close the iterator (``with contextlib.closing(...)``) where the code between plays may raise: it ends the workers.
    A model with a ``stream_plays`` of its own (``ray:``) plays elsewhere, by the same arguments.

    Args:
        orders: What to play; read as plays are let in, so it may be a generator.
        model: Who plays. The caller closes it. After an exception, or when the iterator is closed early (Ctrl-C), it
            may still have requests in flight: close it, or collect until it returns nothing, before it is used again.
        settings: How to play.
        isolation: Of the programs, as for ``Session``.
        limits: What programs may use.
        max_in_flight: Most plays under way.
        max_sessions: Most programs under way, each in a worker process of its own.
        in_order: Act on answers in the order of their requests (see above).
        progress: Told the counts after every pass.

    Yields:
        Plays in the order in which they end.

    Raises:
        SandboxError: The sandbox is broken.
        ModelError: The model refuses a request, or answers one that was not made.
        PromptError: A gameplay prompt cannot be read.
        ValueError: A setting is out of range, two orders under way share a key, or a program to be played with a hint
            has none.
    """
    settings, limits = settings or PlayerSettings(), limits or Limits()
    elsewhere = getattr(model, "stream_plays", None)
    if elsewhere is not None:
        plays: Generator[Play] = elsewhere(
            orders, settings=settings, isolation=isolation, limits=limits, max_in_flight=max_in_flight,
            max_sessions=max_sessions, in_order=in_order, progress=progress,
        )  # fmt: skip
        return plays
    known = [most for most in (model.max_context, settings.context_tokens) if most is not None]
    rules = Rules(
        model=model,
        settings=settings,
        templates=read_templates(example=settings.example, folder=settings.prompts),
        most_turns=min(settings.max_turns, limits.turns),
        most_context=min(known, default=None),
        most_chars=limits.action_chars,
    )
    lanes = Lanes(as_count("max_sessions", max_sessions), Isolation.parse(isolation), limits)
    loop = _Loop(iter(orders), rules, lanes, max_in_flight=as_count("max_in_flight", max_in_flight), in_order=in_order)
    return loop.run(progress)


def play_all(
    orders: Iterable[PlayOrder],
    model: LanguageModel,
    *,
    settings: PlayerSettings | None = None,
    isolation: Isolation | int | str | None = None,
    limits: Limits | None = None,
    max_in_flight: int = 1024,
    max_sessions: int = 64,
    in_order: bool = True,
    on_play: Callable[[Play], None] | None = None,
    progress: Progress | None = None,
) -> list[Play]:
    """Play all orders and return their plays, in the order of the orders.

    Args:
        orders: What to play; their keys are unique.
        model: Who plays (see ``stream_plays`` for all that is not explained here, and for what is raised).
        settings: How to play.
        isolation: Of the programs.
        limits: What programs may use.
        max_in_flight: Most plays under way.
        max_sessions: Most programs under way.
        in_order: Act on answers in the order of their requests.
        on_play: Called with each play as soon as it ends, so that nothing that was played is lost to Ctrl-C.
        progress: Told the counts after every pass.
    """
    wanted = list(orders)
    if len({order.key for order in wanted}) < len(wanted):
        raise ValueError("play_all: the keys of the orders must be unique, because results are sorted by them")
    done: dict[str, Play] = {}
    stream = stream_plays(
        wanted, model, settings=settings, isolation=isolation, limits=limits, max_in_flight=max_in_flight,
        max_sessions=max_sessions, in_order=in_order, progress=progress,
    )  # fmt: skip
    with contextlib.closing(stream):
        for play in stream:
            if on_play is not None:
                on_play(play)
            done[play.key] = play
    return [done[order.key] for order in wanted]


class _Loop:
    """The state of one rollout.

    When answers are acted upon in order, the queue holds the players whose requests are in flight, in the order of
    submission, and ``_left_in_round`` of them belong to the present round; otherwise those that were answered.
    """

    def __init__(
        self, orders: Iterator[PlayOrder], rules: Rules, lanes: Lanes, *, max_in_flight: int, in_order: bool
    ) -> None:
        self._orders = orders
        self._rules = rules
        self._lanes = lanes
        self._max_in_flight = max_in_flight
        self._in_order = in_order
        self._postponed: PlayOrder | None = None
        self._queue: deque[Player] = deque()
        self._left_in_round = 0
        self._asked: dict[str, Player] = {}
        self._num_in_flight = 0
        self._keys: set[str] = set()
        self._counts = Counts()

    def run(self, progress: Progress | None) -> Generator[Play]:
        """Play until no orders are left."""
        try:
            while True:
                if not self._left_in_round:
                    yield from self._let_in()
                    self._left_in_round = len(self._queue) if self._in_order else 0
                    if not self._num_in_flight:
                        break
                ready = self._take_ready()
                if ready:
                    yield from self._advance(ready)
                else:
                    self._collect()
                if progress is not None:
                    progress(self._counts._replace(in_flight=self._num_in_flight))
        finally:
            self._lanes.close()
        if progress is not None:
            progress(self._counts)

    # ---- letting plays in

    def _let_in(self) -> Iterator[Play]:
        """Begin plays until there are enough or no orders are left; yield those that failed at once."""
        while newcomers := self._seat_newcomers():
            results = Exchange("reset", [(player.place, player.order.seed) for player in newcomers]).finish()
            for player, result in zip(newcomers, results, strict=True):
                try:
                    if isinstance(result, ProgramFault):
                        raise result
                    tools = player.place.lane.session.tools(player.place.slot) if player.needs_tools else ()
                except ProgramFault as fault:
                    player.blame(fault)
                    continue
                player.begin(result.observation, tools)
                if not player.ended:
                    self._submit(player)
            yield from self._dismiss(newcomers)
        self._lanes.close_idle()

    def _seat_newcomers(self) -> list[Player]:
        newcomers: list[Player] = []
        while self._num_in_flight + len(newcomers) < self._max_in_flight:
            order = self._postponed or next(self._orders, None)
            self._postponed = None
            if order is None:
                break
            place = self._lanes.seat(order.program)
            if place is None:  # its turn comes when a session is free
                self._postponed = order
                break
            if order.key in self._keys:
                raise ValueError(f"two orders under way share the key {order.key!r}; keys must be unique")
            self._keys.add(order.key)
            newcomers.append(Player(order, place, self._rules))
        return newcomers

    # ---- asking the model

    def _submit(self, player: Player) -> None:
        request = player.next_request()
        if request is None:
            return
        self._rules.model.submit(request)
        self._asked[request.key] = player
        self._num_in_flight += 1
        if self._in_order:
            self._queue.append(player)

    def _collect(self) -> None:
        """Wait for answers, and hand them to their players."""
        completions = self._rules.model.collect()
        if not completions:
            raise ModelError(
                f"{self._rules.model.name}: collect() returned nothing while {len(self._asked)} requests are in flight"
            )
        for completion in completions:
            player = self._asked.pop(completion.key, None)
            if player is None:
                raise ModelError(
                    f"{self._rules.model.name} answered the request {completion.key!r}, which is not in flight: it was "
                    "left over from a rollout that was interrupted (close the model or collect until it is empty), or "
                    "was answered twice"
                )
            player.completion = completion
            if not self._in_order:
                self._queue.append(player)

    def _take_ready(self) -> list[Player]:
        """Take from the queue the players whose answers are there and may be acted upon."""
        most = self._left_in_round if self._in_order else len(self._queue)
        ready: list[Player] = []
        while len(ready) < most and self._queue[0].completion is not None:
            ready.append(self._queue.popleft())
        self._left_in_round -= len(ready) if self._in_order else 0
        self._num_in_flight -= len(ready)
        return ready

    # ---- stepping

    def _advance(self, players: list[Player]) -> Iterator[Play]:
        """Play the answers, submit what is asked next, and yield the plays that have ended."""
        for lane in {player.place.lane for player in players}:
            lane.session.nudge()
        acting: list[tuple[Player, str]] = []
        for player in players:
            action = player.hear()
            if action is not None:
                acting.append((player, action))
        exchange = Exchange("step", [(player.place, action) for player, action in acting])
        for player, _ in acting:  # while the programs are busy
            player.remember()
        results = exchange.finish()
        for (player, action), result in zip(acting, results, strict=True):
            player.see(action, result)
            if not player.ended:
                self._submit(player)
        yield from self._dismiss(players)

    def _dismiss(self, players: list[Player]) -> Iterator[Play]:
        """Let go of those whose play has ended, and yield their plays."""
        for player in players:
            if not player.ended:
                continue
            self._lanes.leave(player.place)
            self._keys.discard(player.order.key)
            play = player.play()
            counts = self._counts
            self._counts = counts._replace(
                plays=counts.plays + 1,
                faulty=counts.faulty + (play.status != "ok"),
                steps=counts.steps + play.length,
                tokens=counts.tokens + play.completion_tokens,
            )
            yield play
