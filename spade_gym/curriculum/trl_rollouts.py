"""A curriculum of tool-use programs as the ``environment_factory`` of TRL's ``GRPOTrainer``: one ticket per group.

TRL resets the rollouts of a generation batch in the order of its rows, and a row's group stands together in it; so
the first reset of a group asks for a ticket, and its rollouts play the ticket's seeds. Nothing of TRL is imported here.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spade_gym.curriculum.finite import whole_number
from spade_gym.curriculum.play import CurriculumPlays, Judge, Play, status_of
from spade_gym.curriculum.service import AsksAndTells
from spade_gym.curriculum.task import Outcome, Ticket
from spade_gym.curriculum.task_environments import Env, TaskEnvironments
from spade_gym.errors import ProgramFault

_OVER = json.dumps({"error": "the task is over"})


class TrlRollouts:
    """Makes the environments in which TRL plays a curriculum; hand it over as ``environment_factory``.

    Every play is told once its reward is asked for. A fault of a program is told as such, and rewarded with the mean
    of its group, so that it teaches nothing; so does a group that is not to be learned from (``ticket.train``), as
    all its rewards are 0. Of a play that the model ends without an answer, the answer is "done".

    The rows of one process's generation batch must be whole groups. TRL would play its own ``eval_dataset`` in the same
    environments, and tell: evaluate with ``CurriculumEnv(..., evaluation=True)`` instead.

    Args:
        curriculum: As for ``CurriculumEnv``, made with ``group_size`` as here; its tasks are tool-use programs.
        group_size: ``num_generations`` of the trainer.
        pool: A pool folder in which programs are looked up first.
        program_options: More arguments of ``ProgramEnv``.
        num_kept: Programs whose worker each rollout keeps.

    Raises:
        ValueError: A number is out of range.

    Example:
        environments = TrlRollouts(curriculum, group_size=8)
        GRPOTrainer(model, args=GRPOConfig(num_generations=8, max_steps=100), environment_factory=environments).train()
    """

    def __init__(
        self,
        curriculum: AsksAndTells | str,
        *,
        group_size: int,
        pool: Path | str | None = None,
        program_options: Mapping[str, Any] | None = None,
        num_kept: int = 2,
    ) -> None:
        whole_number("group_size", group_size, least=1)
        self.group_size = group_size
        self.policy_version = 0
        self.plays = CurriculumPlays(curriculum)
        self._make = functools.partial(
            TaskEnvironments, program_options=program_options, pool=pool, num_kept=num_kept
        )  # fmt: skip
        self._rollouts: list[ToolRollout] = []
        self._group: Group | None = None

    def __call__(self) -> ToolRollout:
        """Return a new environment for one rollout at a time."""
        rollout = ToolRollout(self, self._make())
        self._rollouts.append(rollout)
        return rollout

    def seat(self, rollout: ToolRollout) -> tuple[Group, Play]:
        """Return the group that a rollout belongs to, and what it plays; the first of a group asks for its ticket.

        Raises:
            EmptyCurriculum: There is nothing to play.
            ValueError: The curriculum's tickets are of another size.
        """
        if self._group is None or len(self._group.rollouts) == self.group_size:
            ticket = self.plays.curriculum.ask()
            if len(ticket.seeds) != self.group_size or ticket.task.kind != "program":
                self._abort(ticket, ticket.seeds)
                raise ValueError(
                    f"group_size is {self.group_size}, and the curriculum's ticket has {len(ticket.seeds)} seeds of a "
                    f"task of kind {ticket.task.kind!r}: make the curriculum with preset.make(..., "
                    f"group_size={self.group_size}), the trainer's num_generations, of tasks of kind 'program'"
                )
            self._group = Group(ticket, Judge(self.plays.return_range))
        self._group.rollouts.append(rollout)
        return self._group, Play(self._group.ticket, self._group.ticket.seeds[len(self._group.rollouts) - 1])

    def _abort(self, ticket: Ticket, seeds: Sequence[int]) -> None:
        for seed in seeds:
            self.plays.tell(Outcome(ticket.id, seed, status="aborted"))

    def close(self) -> None:
        """Give up what is being played, flush, and end the programs' workers."""
        try:
            for rollout in self._rollouts:
                rollout._give_up()
            if self._group is not None:
                self._abort(self._group.ticket, self._group.ticket.seeds[len(self._group.rollouts) :])
                self._group = None
            self.plays.close()
        finally:
            for rollout in self._rollouts:
                rollout._environments.close()


class Group:
    """The rollouts of one ticket.

    Args:
        ticket: The ticket.
        judge: Makes outcomes.

    Attributes:
        rollouts: In the order of the ticket's seeds.
    """

    def __init__(self, ticket: Ticket, judge: Judge) -> None:
        self.ticket = ticket
        self.judge = judge
        self.rollouts: list[ToolRollout] = []
        self._rewards: dict[int, float] | None = None

    def reward(self, rollout: ToolRollout) -> float:
        """Return a rollout's reward; the first call ends and tells the plays of all."""
        if self._rewards is None:
            outcomes = [member._end() for member in self.rollouts]
            totals = [outcome.total for outcome in outcomes if outcome.status == "ok"]
            mean = sum(totals) / len(totals) if totals else 0.0
            self._rewards = {
                id(member): (outcome.total if outcome.status == "ok" else mean) if self.ticket.train else 0.0
                for member, outcome in zip(self.rollouts, outcomes, strict=True)
            }
        return self._rewards[id(rollout)]


class ToolRollout:
    """One rollout at a time of a tool-use program. TRL offers its public methods to the model as tools.

    Args:
        owner: Seats it in groups.
        environments: Plays its programs.
    """

    def __init__(self, owner: TrlRollouts, environments: TaskEnvironments) -> None:
        self._owner = owner
        self._environments = environments
        self._group: Group | None = None
        self._play: Play | None = None
        self._env: Env | None = None
        self._total, self._length = 0.0, 0
        self._info: dict[str, Any] = {}
        self._over = True

    def reset(self, **row: Any) -> str:
        """Start the next play; return the first instruction and the program's tools, to be shown to the model."""
        self._give_up()
        self._group, self._play = self._owner.seat(self)
        self._total, self._length, self._over = 0.0, 0, False
        try:
            prepared = self._environments.prepare(self._play.ticket)
            self._env = prepared.env
            observation, self._info = self._env.reset(seed=self._play.seed, options=prepared.options or None)
        except ProgramFault as fault:
            self._over, self._info = True, {"fault": fault.reason}
            return "(This task cannot be played.)"
        tools = self._info.get("tools", "[]")
        return f"{observation}\n\nThe tools behind call_tool, as a JSON list:\n{tools}"

    def call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Call one of the tools that the task describes.

        Args:
            name: Name of the tool.
            arguments: Its arguments by name.

        Returns:
            The tool's result, and the next instruction once the present one is complete.
        """
        return self._step(f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>")

    def answer(self, text: str) -> str:
        """End the task, when all its instructions are complete.

        Args:
            text: The answer; "done" where none was asked for.

        Returns:
            Whether that was right.
        """
        return self._step(f"<answer>{text}</answer>")

    def get_reward(self) -> float:
        """Return the play's return; TRL calls it once a rollout is complete."""
        return 0.0 if self._group is None else self._group.reward(self)

    # ---- for its owner

    def _step(self, action: str) -> str:
        if self._over or self._env is None:
            return _OVER
        observation, reward, terminated, truncated, self._info = self._env.step(action)
        self._total += float(reward)
        self._length += 1
        self._over = bool(terminated or truncated)
        return str(observation)

    def _end(self) -> Outcome:
        """End the play, if the model has not, and tell its outcome."""
        assert self._play is not None
        assert self._group is not None
        if not self._over:
            self.answer("done")
        outcome = self._group.judge.outcome(
            self._play, self._total, self._length, self._info, policy_version=self._owner.policy_version
        )
        self._play = None
        self._owner.plays.tell(outcome)
        return outcome

    def _give_up(self) -> None:
        """Tell that a play was aborted whose reward nobody has asked for."""
        if self._play is not None:
            play, self._play = self._play, None
            fault = status_of(self._info.get("fault", ""))
            status = "aborted" if fault == "ok" else fault
            self._owner.plays.tell(Outcome(play.ticket.id, play.seed, length=self._length, status=status))
        self._over = True
