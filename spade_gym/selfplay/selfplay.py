"""The self-play cycle of SPADE (arXiv:2608.19197), readable from top to bottom.

One policy designs and plays. Every K rollouts a new pool of programs is asked for, checked and given hints, and played
once with them. Every rollout plays each program of the pool without hints, and one update learns from these plays and,
when a window has just closed, from the designer's replies of that window.

Departures from the released code (reasons: method, section 10): the old pool stays until a new one is accepted; both
arms play the same instances; faults are left out of both arms alike; an unknown regret is no regret of 0; the last
window is learnt from too.

Everything is kept in the run's folder as it happens. A cycle that is started again runs from its beginning, finds there
what was already done, and does the rest: so a killed run ends as an undisturbed one does.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spade_gym.curriculum.designer_reward import designer_advantages, designer_scale
from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.score import Score, Unknown
from spade_gym.curriculum.task import Arm, Outcome
from spade_gym.curriculum.views import summaries
from spade_gym.designer.attempts import Design
from spade_gym.errors import SpadeError
from spade_gym.rollout.play import Play
from spade_gym.rollout.rollout import stream_plays
from spade_gym.selfplay.advantages import group_advantages
from spade_gym.selfplay.checkpoints import Checkpoints
from spade_gym.selfplay.design_journal import DesignJournal
from spade_gym.selfplay.environment import Environment, environment_of, play_orders
from spade_gym.selfplay.fixed_choice import FixedChoice
from spade_gym.selfplay.run import Run
from spade_gym.selfplay.run_rows import row_of_memory, row_of_pool, row_of_worth
from spade_gym.selfplay.trainer import Trajectory, UpdateBatch
from spade_gym.selfplay.window import Window, Worth

#: Share of aborted plays in an arm beyond which a run stops.
_OUTAGE = 0.5


class SelfPlayError(SpadeError):
    """A cycle that cannot go on; what was done is kept."""


def selfplay(run: Run) -> None:
    """Run the cycle to its end, from wherever the run's folder says that it is.

    Raises:
        SelfPlayError: The first pool was not accepted.
        SandboxError: The sandbox is broken.
        ModelError: A model is.
    """
    cycle = Cycle(run)
    settings = run.recipe.cycle
    for rollout in range(settings.rollouts):
        designer: list[Trajectory] = []
        if rollout % settings.regenerate_every == 0:
            designer = cycle.close_window(rollout)
            cycle.regenerate(rollout)
            cycle.play(rollout, "hint", settings.hint_plays)
        plays = cycle.play(rollout, "plain", settings.plays)
        cycle.learn(rollout, plays, designer)
    cycle.learn(settings.rollouts, [], cycle.close_window(settings.rollouts))
    cycle.save_last()


class _Reply(NamedTuple):
    """A reply of the designer that will be learnt from when its window closes.

    Attributes:
        key: Of the request.
        skill: That was asked for.
        reward: Known at once for rejected replies, where the recipe rewards these.
        born: Number of the rollout in which it was written.
    """

    key: str
    skill: str
    reward: Score | Unknown
    born: int


class Cycle:
    """The state of a run between the steps of the cycle.

    Args:
        run: Who does the work, and where it is kept.

    Attributes:
        environments: The active pool.
        memory: The environment memory.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._store = run.store
        self._recipe = run.recipe
        self.environments: list[Environment] = []
        self.memory = Memory(run.recipe.memory.capacity, eviction=run.recipe.memory.eviction)
        self._window: Window | None = None
        self._choice: FixedChoice | None = None
        self._replies: list[_Reply] = []
        self._num_agent = 0
        self._num_notes: dict[int, int] = {}
        self._checkpoints = Checkpoints(run.store, run.report.say)
        self._learnt = self._checkpoints.load(run.trainer)
        self._unsaved: int | None = None

    # ---- designing

    def regenerate(self, rollout: int) -> None:
        """Ask for a new pool; the old one stays where too little of the new one is accepted.

        Raises:
            SelfPlayError: There is no old one.
        """
        settings = self._recipe.cycle
        epoch = rollout // settings.regenerate_every
        if self.environments and settings.pool == "fixed":
            self._window = Window(epoch, rollout, self.environments)
            return
        self._run.report.say(f"epoch {epoch}: asking for {settings.environments} programs")
        workshop = self._run.workshop
        memory = self.memory if self._recipe.memory.use else None
        found, designs = workshop.make_pool(epoch, rollout, memory)
        wanted = len(designs)
        for notice in dict.fromkeys(notice.message for item in designs for notice in item.attempts[-1].notices):
            self._note(rollout, "diversity", notice)
        if len(found) < max(1, settings.least_accepted * wanted):
            self._keep_old_pool(rollout, f"{len(found)} of {wanted} programs were accepted")
        else:
            self.environments = found
            self._replies = _replies_of(found, designs, self._recipe.designer.rejected_reward, rollout)
            if settings.pool == "fixed":
                self._choice = FixedChoice(found, settings.choice, settings.seed)
            self._run.report.say(f"epoch {epoch}: a pool of {len(found)} of {wanted} programs")
        without = [
            environment.program.name for environment in self.environments if not environment.program.manifest.hint
        ]
        if without and settings.hint_plays:
            self._note(rollout, "no hint", f"no hint, and so no regret, for {', '.join(without)}")
        self._store.put("pools", *(row_of_pool(epoch, environment) for environment in self.environments))
        self._window = Window(epoch, rollout, self.environments)

    def _keep_old_pool(self, rollout: int, reason: str) -> None:
        if not self.environments:
            raise SelfPlayError(
                f"no pool to begin with: {reason}. `spade-gym run show {self._store.folder}` says why replies were "
                "refused; ask for easier programs, another designer, or lower cycle.least_accepted"
            )
        self._note(rollout, "pool kept", f"{reason}, too few: the old pool of {len(self.environments)} stays")

    # ---- playing

    def play(self, rollout: int, arm: Arm, count: int) -> list[Play]:
        """Play each environment of the pool ``count`` times in one arm; what was already played is taken from disk.

        Plays that the model could not finish are played again when the run is started again, until their rollout was
        learnt from.

        Raises:
            SelfPlayError: Most plays were aborted: the model or its server fails.
        """
        chosen = self._chosen(rollout, arm)
        orders = play_orders(chosen, seed=self._recipe.cycle.seed, rollout=rollout, arm=arm, count=count)
        done = self._store.plays(rollout, arm) if orders else {}
        if not self._store.is_learnt(rollout):
            done = {key: play for key, play in done.items() if play.status != "aborted"}
        missing = [order for order in orders if order.key not in done]
        if missing:
            cycle = self._recipe.cycle
            settings, model = self._recipe.agent.player(), self._run.agent
            with self._run.report.progress(f"rollout {rollout}, {arm}", len(missing)) as progress, contextlib.closing(
                stream_plays(
                    missing, model, settings=settings, isolation=cycle.isolation or None, in_order=cycle.in_order,
                    max_in_flight=cycle.max_in_flight, max_sessions=cycle.max_sessions, progress=progress,
                )
            ) as stream:  # fmt: skip
                for play in stream:
                    self._store.put_plays(rollout, [play])
                    done[play.key] = play
        plays = [done[order.key] for order in orders]
        self._refuse_outage(plays, missing=len(missing))
        assert self._window is not None
        self._window.add(rollout, plays)
        if self._choice is not None and arm == "plain":
            self._choice.observe(rollout, plays)
        return plays

    def _refuse_outage(self, plays: Sequence[Play], *, missing: int) -> None:
        """Stop where the model fails rather than play the rest of the run for nothing."""
        aborted = [play for play in plays if play.status == "aborted"]
        if missing and len(aborted) > _OUTAGE * len(plays):
            raise SelfPlayError(
                f"{len(aborted)} of {len(plays)} plays were aborted by {self._run.agent.name}, the last with: "
                f"{aborted[-1].fault}. Mend it and start the same command again: these plays are then repeated"
            )

    def _chosen(self, rollout: int, arm: Arm) -> list[Environment]:
        if arm == "hint":
            return [environment for environment in self.environments if environment.program.manifest.hint]
        if self._choice is not None:
            return self._choice.choose(rollout, self._recipe.cycle.environments)
        return self.environments

    # ---- judging

    def close_window(self, rollout: int) -> list[Trajectory]:
        """Score the programs of the window that ends here, and remember them.

        Returns:
            The designer's replies of that window with what they turned out to be worth; empty before the first window.
        """
        window, self._window = self._window, None
        if window is None:
            return []
        worths = window.worths(self._recipe.reward)
        replies, self._replies = self._replies, []
        rewards: dict[str, Score | Unknown] = {worth.environment.request: worth.reward for worth in worths}
        known = [reply for reply in replies if isinstance(rewards.get(reply.key, reply.reward), Score)]
        raw = [rewards.get(reply.key, reply.reward) for reply in known]
        scale = designer_scale(
            len(known), self._num_agent, self._recipe.cycle.regenerate_every, max_scale=self._recipe.reward.max_scale
        )
        found = designer_advantages(raw, [reply.skill for reply in known], scale=scale)
        advantages = {reply.key: advantage for reply, advantage in zip(known, found, strict=True)}
        self._store.put("scores", *(
            row_of_worth(window.epoch, worth, advantages.get(worth.environment.request)) for worth in worths
        ))  # fmt: skip
        for worth in worths:
            if worth.wins is not None and worth.wins.constant_return is not None:
                name, value = worth.environment.program.name, worth.wins.constant_return
                self._note(rollout, "constant return", f"{name}: most plays got the same return, {value:g}")
            if worth.num_dropped:
                name, dropped = worth.environment.program.name, worth.num_dropped
                self._note(rollout, "faults", f"{name}: {dropped} plays do not count (faulty ones and counterparts)")
        self._remember(window, worths)
        journal = DesignJournal(self._store)
        return [
            Trajectory(
                reply.key, "designer", reply.skill, reward.value, advantages[reply.key] or 0.0,
                journal.samples(reply.key), reply.born, self._recipe.designer.temperature or 1.0,
            )
            for reply, reward in zip(known, raw, strict=True)
            if isinstance(reward, Score)
        ]  # fmt: skip

    def _remember(self, window: Window, worths: Sequence[Worth]) -> None:
        """Write the window's programs and plays into the environment memory."""
        for worth in worths:
            task = worth.environment.task
            slot = self.memory.slot_of(task.id)
            if slot is None:
                slot = self.memory.add(task, now=window.epoch).slot
            for outcome, arm, rollout in _outcomes_of(worth):
                self.memory.played(slot, outcome, arm, window=rollout)
        found = summaries(self.memory, now=window.epoch)
        self._store.put("memory", *(row_of_memory(window.epoch, n, item) for n, item in enumerate(found)))

    # ---- learning

    def learn(self, rollout: int, plays: Sequence[Play], designer: Sequence[Trajectory]) -> None:
        """Update once on the agent's plays of this rollout and the designer's replies of the window just closed."""
        agent = self._agent_trajectories(rollout, plays)
        self._num_agent = len(agent) or self._num_agent
        taught = designer if self._recipe.designer.train else ()
        if rollout <= self._learnt or not (agent or taught):
            return
        by_key = {play.key: play for play in plays}
        batch = UpdateBatch(rollout, (*agent, *taught), tuple(by_key[item.key] for item in agent))
        begun = time.monotonic()
        metrics = _checked(self._run.trainer.update(batch), rollout)
        self._store.put("updates", {
            "rollout": rollout, "num_agent": len(agent), "num_designer": len(taught),
            "metrics": json.dumps(metrics), "update_seconds": time.monotonic() - begun,
            "updated_at": time.time(),
        })  # fmt: skip
        self._unsaved = rollout
        if (rollout + 1) % self._recipe.trainer.save_every == 0:
            self.save_last()

    def _agent_trajectories(self, rollout: int, plays: Sequence[Play]) -> list[Trajectory]:
        """Valid plays, each weighed against the others of its environment."""
        groups: dict[int, list[Play]] = {}
        for play in plays:
            if play.status == "ok":
                groups.setdefault(environment_of(play.key), []).append(play)
        return [
            Trajectory(
                play.key,
                "agent",
                f"{rollout}/{group}",
                play.total,
                advantage,
                play.samples,
                rollout,
                self._recipe.agent.temperature or 1.0,
            )
            for group, mine in groups.items()
            for play, advantage in zip(
                mine, group_advantages([play.total for play in mine], std=self._recipe.agent.std), strict=True
            )
        ]

    def save_last(self) -> None:
        """Save after the last update, where that was not done already."""
        if self._unsaved is not None:
            self._checkpoints.save(self._run.trainer, self._unsaved)
            self._unsaved = None

    def _note(self, rollout: int, kind: str, message: str) -> None:
        """Keep something that a person should know, and say it."""
        position = self._num_notes.get(rollout, 0)
        self._num_notes[rollout] = position + 1
        self._store.put("notes", {"rollout": rollout, "position": position, "kind": kind, "message": message})
        self._run.report.say(f"{kind}: {message}")


def _replies_of(
    environments: Sequence[Environment], designs: Sequence[Design], rejected_reward: float | None, rollout: int
) -> list[_Reply]:
    """Replies to be learnt from: those in the pool, and (where the recipe says so) the rejected ones."""
    unknown = Unknown("its window is open")
    replies = [_Reply(item.request, item.skill, unknown, item.born) for item in environments]
    if rejected_reward is None:
        return replies
    fixed = Score(rejected_reward, None, 1)
    return replies + [
        _Reply(attempt.request.key, attempt.request.skill, fixed, rollout)
        for item in designs
        for attempt in item.attempts
        if not attempt.accepted
    ]


def _checked(metrics: Mapping[str, float], rollout: int) -> dict[str, float]:
    """A trainer's metrics as finite numbers.

    Raises:
        SelfPlayError: One is no finite number; the update is not written down, and is made again after a restart.
    """
    found = {}
    for name, value in metrics.items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError) as error:
            raise SelfPlayError(f"rollout {rollout}: the trainer's metric {name!r} is no number: {value!r}") from error
        if not math.isfinite(found[str(name)]):
            raise SelfPlayError(
                f"rollout {rollout}: the trainer's metric {name!r} is {value!r}; the update is not kept"
            )
    return found


def _outcomes_of(worth: Worth) -> list[tuple[Outcome, Arm, int]]:
    """The valid plays of an environment as outcomes of its task."""
    data = worth.outcomes
    return [
        (
            Outcome(
                0, int(data.seeds[n]), float(data.returns[n]), bool(data.wins[n]), int(data.lengths[n]),
                policy_version=int(data.policy_versions[n]),
            ),
            "hint" if data.hinted[n] else "plain",
            int(data.windows[n]),
        )
        for n in range(len(data))
    ]  # fmt: skip
