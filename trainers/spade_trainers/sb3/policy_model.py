"""A policy of Stable-Baselines3 that plays in the self-play cycle: the model ``sb3:ppo`` or ``sb3:dqn``.

It reads what the player is shown as hashed words, and answers with a command of a fixed menu: to the cycle it is a
language model with as many words as there are commands, each a whole reply. The trainer ``sb3`` changes its weights.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spade_gym.envs.wrappers import HashedText, Menu, MenuError, TextStack
from spade_gym.models.base import Completion, Message, ModelError, ModelRequest, Sampling

if TYPE_CHECKING:
    import torch

    from spade_gym.models.chat import ChatFormat

ALGORITHMS = ("ppo", "dqn")


class PolicyModel:
    """Satisfies :class:`~spade_gym.models.base.LanguageModel`, without token ids.

    Requests that wait are answered together. What one gets depends on its messages and its seed.

    Args:
        algorithm: ``ppo``, whose network gives the probabilities of commands, or ``dqn``, whose network gives their
            values: it draws the best command, and with probability ``exploration`` any.
        commands: Bare commands; those of all programs that are to be played.
        boxed: Whether programs get them in a box.
        num_features: Length of the vector of one observation.
        history: How many of the last observations the policy sees.
        keep_first: Whether it also sees the first one.
        layers: Widths of its hidden layers.
        seed: Of its first weights.

    Attributes:
        menu: The commands.
        policy: The policy of Stable-Baselines3 with the weights.
        exploration: See above; changed by the trainer.
        policy_version: Of the weights.
        was_narrowed: Whether top-p or top-k kept a command from being drawn.

    Raises:
        ModelError: The algorithm is unknown or not installed, or the commands make no menu.
    """

    chat_format: ChatFormat | None = None
    max_context: int | None = None

    def __init__(
        self,
        algorithm: str,
        *,
        commands: Sequence[str],
        boxed: bool = True,
        num_features: int = 512,
        history: int = 1,
        keep_first: bool = False,
        layers: Sequence[int] = (128, 128),
        seed: int = 0,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise ModelError(f"the model sb3 plays with {' or '.join(ALGORITHMS)}, got {algorithm!r}: write sb3:ppo")
        try:
            self.menu = Menu(tuple(commands), boxed)
        except MenuError as error:
            raise ModelError(f"the model sb3:{algorithm}: {error}") from error
        self.name = f"sb3:{algorithm}"
        self.algorithm = algorithm
        self.exploration = 1.0
        self.policy_version = 0
        self.was_narrowed = False
        self._encode = HashedText(num_features)
        self._stack = {"history": history, "keep_first": keep_first}
        length = TextStack(self._encode, num_features, history=history, keep_first=keep_first).length
        self.policy = _new_policy(algorithm, length, len(self.menu), layers, seed)
        self._places = {text: place for place, text in enumerate(self.menu.texts)}
        self._waiting: dict[str, tuple[ModelRequest, float]] = {}
        self._closed = False

    # ---- the protocol

    def submit(self, request: ModelRequest) -> None:
        """Take a request.

        Raises:
            ModelError: Its key is in flight, it holds messages that are no play of a game, or the model is closed.
        """
        if self._closed:
            raise ModelError(f"{self.name} is closed; open it again")
        if request.key in self._waiting:
            raise ModelError(f"the request {request.key!r} is in flight already; keys must be unique")
        self._check(request.messages)
        self._waiting[request.key] = (request, time.monotonic())

    def collect(self) -> list[Completion]:
        """Answer all that waits, in the order of submission."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        found: dict[str, Completion] = {}
        asked = sorted(waiting, key=lambda item: repr(item[0].sampling))
        for sampling, group in itertools.groupby(asked, key=lambda item: item[0].sampling):
            found.update((completion.key, completion) for completion in self._answer(list(group), sampling))
        return [found[request.key] for request, _ in waiting]

    def close(self) -> None:
        """Give up what waits."""
        self._closed = True
        self._waiting.clear()

    # ---- what the trainer needs

    def encoded(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return what the policy sees after each of the observations of a play.

        Args:
            texts: All that was shown, in order.

        Returns:
            Shape (number of texts, length of an observation).
        """
        stack = TextStack(self._encode, self._encode.num_features, **self._stack)  # type: ignore[arg-type]
        return np.stack([stack.step(text) if place else stack.reset(text) for place, text in enumerate(texts)])

    def place_of(self, reply: str) -> int | None:
        """Return the number of the command that a reply is; ``None`` when it is none of the menu."""
        return self._places.get(reply)

    # ---- answering

    def _check(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.role == "tool":
                raise ModelError(f"{self.name} plays games; the results of tools are nothing that its menu answers")
            if message.role == "assistant" and self.place_of(message.content) is None:
                raise ModelError(
                    f"{self.name} reads an answer that is no command of its menu: {message.content[:100]!r}. Prompts "
                    'that show an example are not for it: agent.prompts = "bare" and agent.example = false'
                )

    def _answer(self, asked: list[tuple[ModelRequest, float]], sampling: Sampling) -> list[Completion]:
        from spade_gym.models.sampler import draw

        shown = [
            self.encoded([message.content for message in request.messages if message.role == "user"])[-1]
            for request, _ in asked
        ]
        uniforms = [float(np.random.default_rng(request.seed).random()) for request, _ in asked]
        drawn = draw(self._scores(np.stack(shown)), sampling, uniforms)
        if not all(drawn.usable):
            raise ModelError(f"{self.name}: its network gives no finite numbers; go on from an earlier checkpoint")
        if sampling.temperature:
            kept = zip(drawn.kept_logprobs, drawn.logprobs, strict=True)
            self.was_narrowed |= any(most - all_ > 1e-3 for most, all_ in kept)
        return [
            Completion(
                key=request.key,
                text=self.menu.texts[place],
                finish="stop",
                completion_tokens=1,
                policy_version=self.policy_version,
                seconds=time.monotonic() - since,
            )
            for (request, since), place in zip(asked, drawn.ids, strict=True)
        ]

    def _scores(self, observations: npt.NDArray[np.float32]) -> torch.Tensor:
        """The logarithm of each command's probability; shape (number of observations, number of commands)."""
        import torch

        with torch.inference_mode():
            seen = torch.as_tensor(observations)
            if self.algorithm == "ppo":
                logits: torch.Tensor = self.policy.get_distribution(seen).distribution.logits
                return logits
            values = self.policy.q_net(seen)
            best = torch.nn.functional.one_hot(values.argmax(dim=1), values.shape[1])
            spread = self.exploration / values.shape[1]
            return torch.log(spread + (1 - self.exploration) * best.float()).clamp(min=-30.0)


def _new_policy(algorithm: str, length: int, num_commands: int, layers: Sequence[int], seed: int) -> Any:
    """A policy of Stable-Baselines3 with fresh weights."""
    try:
        from stable_baselines3.common.policies import ActorCriticPolicy
        from stable_baselines3.dqn.policies import DQNPolicy
    except ImportError as error:
        raise ModelError(
            f"the model sb3:{algorithm} needs Stable-Baselines3 ({error}): pip install 'spade-gym[sb3]'"
        ) from error
    from gymnasium import spaces

    from spade_trainers.sb3.own_randomness import own_randomness

    kind = ActorCriticPolicy if algorithm == "ppo" else DQNPolicy
    box = spaces.Box(-1.0, 1.0, (length,), np.float32)
    with own_randomness(seed, 0):
        policy = kind(box, spaces.Discrete(num_commands), lambda _: 1e-3, net_arch=list(layers))
    policy.set_training_mode(False)
    return policy


def open_policy(argument: str, **settings: Any) -> PolicyModel:
    """The entry point ``sb3`` of ``spade_gym.models``; see :class:`PolicyModel`.

    Raises:
        ModelError: The algorithm or a setting is unknown, or Stable-Baselines3 is missing.
    """
    if "commands" not in settings:
        raise ModelError(f"the model sb3:{argument} needs its commands: models.agent_options.commands = ['go', …]")
    return PolicyModel(argument, **settings)
