"""One play under way: what was said so far, what the budgets leave, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spade_gym.curriculum.play import status_of
from spade_gym.errors import ProgramFault
from spade_gym.models.base import Completion, LanguageModel, Message, ModelError, ModelRequest
from spade_gym.models.chat import start_chat
from spade_gym.rollout.actions import action_of, messages_of
from spade_gym.rollout.gameplay_prompt import Template, first_observation
from spade_gym.rollout.lanes import Place
from spade_gym.rollout.play import Play, PlayOrder, Turn
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.types import Setting, Status, Transition

if TYPE_CHECKING:
    from spade_gym.models.chat import Chat, TextChat


@dataclass(frozen=True, slots=True)
class Rules:
    """What all plays of a rollout share.

    Attributes:
        model: Who plays.
        settings: How.
        templates: The gameplay prompt of each setting.
        most_turns: Most actions of a play.
        most_context: Most tokens of a prompt and its reply; ``None`` where nobody knows.
        most_chars: Longest action.
    """

    model: LanguageModel
    settings: PlayerSettings
    templates: Mapping[Setting, Template]
    most_turns: int
    most_context: int | None
    most_chars: int


class Player:
    """Plays one order, one message at a time; the loop in ``rollout.py`` carries the messages.

    Args:
        order: What to play.
        place: Where.
        rules: How.

    Attributes:
        ended: How the play ended; "" while it goes on.
        completion: The model's answer to the last request, once it is there.
    """

    def __init__(self, order: PlayOrder, place: Place, rules: Rules) -> None:
        self.order = order
        self.place = place
        self.ended = ""
        self.completion: Completion | None = None
        self._rules = rules
        self._seeds = _turn_seeds(order.sampling_seed, rules.most_turns)
        self._template = rules.templates[order.program.setting]
        self._chat: Chat | TextChat | None = None
        self._turns: list[Turn] = []
        self._rewards: list[float] = []
        self._observation = ""
        self._shown = ""
        self._status: Status = "ok"
        self._fault = ""
        self._versions: set[int] = set()
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._started = time.monotonic()
        self._seconds = 0.0

    @property
    def needs_tools(self) -> bool:
        """Whether the program's tools must be known before it can be played."""
        return self.order.program.setting == "tool_use"

    def begin(self, observation: str, tools: Sequence[Mapping[str, Any]]) -> None:
        """Take in the first observation, and the tools of a tool-use program.

        A chat that the model's template cannot render aborts the play.
        """
        order, template = self.order, self._template
        self._observation = first_observation(order.program, observation, hint=order.arm == "hint")
        self._shown = template.around(self._observation, tools)
        try:
            self._chat = start_chat(
                self._rules.model,
                [*template.before, Message("user", self._shown)],
                tools=() if template.lists_tools else tools,
                thinking=self._rules.settings.thinking,
            )
        except ModelError as error:
            self._fail("aborted", str(error))

    def next_request(self) -> ModelRequest | None:
        """Return the request for the next turn; ``None`` when the context has no room for it, which ends the play."""
        assert self._chat is not None
        rules, turn = self._rules, len(self._turns)
        sampling = rules.settings.sampling
        most = min(sampling.max_tokens, rules.settings.total_tokens - self._completion_tokens)
        if rules.most_context is not None:
            most = min(most, rules.most_context - self._chat.num_tokens)
        if most < 1:
            self._end("context")
            return None
        if most < sampling.max_tokens:
            sampling = replace(sampling, max_tokens=most)
        self.completion = None
        return self._chat.request(f"{self.order.key}/{turn}", sampling, self._seeds[turn])

    def hear(self) -> str | None:
        """Read the model's answer; return the action to be played, or ``None`` when the play has ended.

        While the action is played there is time to ``remember`` the answer.
        """
        said = self.completion
        assert said is not None
        assert self._chat is not None
        self._prompt_tokens += said.prompt_tokens
        self._completion_tokens += said.completion_tokens
        if said.finish == "error":
            self._fail("aborted", said.error or "the model gave no reason")
            return None
        if said.finish == "length":
            self.remember()
            self._turns.append(Turn(self._shown, said.text, None, 0.0))
            self._observation = ""
            self._end("cut")
            return None
        rules, setting = self._rules, self.order.program.setting
        return action_of(said.text, setting, most_chars=rules.most_chars, box_raw=rules.settings.box_raw_replies)

    def remember(self) -> None:
        """Append the answer to the chat.

        Raises:
            ModelError: It came without ids, or not with as many log-probabilities.
        """
        assert self._chat is not None
        assert self.completion is not None
        self._versions.add(self.completion.policy_version)
        self._chat.complete(self.completion)

    def see(self, action: str, result: Transition | ProgramFault) -> None:
        """Take in what the environment answered to an action."""
        assert self.completion is not None
        reward = 0.0 if isinstance(result, ProgramFault) else result.reward
        self._turns.append(Turn(self._shown, self.completion.text, action, reward))
        self._observation = ""
        if isinstance(result, ProgramFault):
            self.blame(result)
            return
        self._rewards.append(reward)
        self._observation = result.observation
        if result.terminated or result.truncated:
            self._end("terminated" if result.terminated else "truncated")
        elif len(self._turns) >= self._rules.most_turns:
            self._end("turns")
        elif self._completion_tokens >= self._rules.settings.total_tokens:
            self._end("tokens")
        else:
            self._show(result.observation, action)

    def _show(self, observation: str, action: str) -> None:
        """Add a later observation to the chat."""
        assert self._chat is not None
        setting = self.order.program.setting
        if self._rules.settings.wrap_every_turn and setting != "tool_use":
            self._shown = self._template.around(observation)
            messages = [Message("user", self._shown)]
        else:
            self._shown = observation
            messages = messages_of(observation, action, setting)
        try:
            self._chat.observe(messages)
        except ModelError as error:
            self._fail("aborted", str(error))

    def blame(self, fault: ProgramFault) -> None:
        """End the play because the program failed: it counts for nothing."""
        self._fail(status_of(fault), f"{fault.reason}: {fault}")

    def _fail(self, status: Status, fault: str) -> None:
        self._status, self._fault = status, fault
        self._end("fault")

    def _end(self, ended: str) -> None:
        self.ended = ended
        self._seconds = time.monotonic() - self._started

    def play(self) -> Play:
        """Return the record of the play, which has ended."""
        order, settings, ok = self.order, self._rules.settings, self._status == "ok"
        terminated = self.ended == "terminated"
        total = settings.return_of(order.program, self._rewards, terminated=terminated) if ok else 0.0
        return Play(
            key=order.key,
            digest=order.program.digest,
            seed=order.seed,
            arm=order.arm,
            total=total,
            won=ok and terminated and total >= settings.win_threshold,
            length=len(self._rewards),
            status=self._status,
            fault=self._fault,
            ended=self.ended,
            turns=tuple(self._turns),
            samples=self._chat.samples() if ok and self._chat is not None and self._turns else (),
            policy_version=min(self._versions, default=0),
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            seconds=self._seconds,
            last_observation=self._observation,
        )


def _turn_seeds(sampling_seed: int, num_turns: int) -> list[int]:
    """Seeds of all turns: children of the play's, in 31 bits because some servers take no more."""
    words: list[int] = np.random.SeedSequence(sampling_seed).generate_state(num_turns).tolist()
    return [word >> 1 for word in words]
