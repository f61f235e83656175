"""One episode played by a person: the turns, and the commands that start with a colon."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from spade_gym.cli.play_actions import compose, signature
from spade_gym.cli.terminal import bold, visible, wrap
from spade_gym.cli.transcript import Transcript
from spade_gym.errors import ProgramFault
from spade_gym.types import WIN_THRESHOLD

if TYPE_CHECKING:
    from spade_gym.programs.program import Program

_MAX_COMMANDS = 60
_META = frozenset({"hint", "commands", "tools", "quit", "exit", "help"})
_HELP = """:hint      show the hint (it spoils the game)
:commands  show the actions that are known
:tools     show the tools and their arguments
:quit      stop; the transcript is kept
:help      show this"""


class TextEnv(Protocol):
    """What is needed of a Gymnasium environment of texts."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode."""

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Send one action."""


@dataclass
class Episode:
    """One play and its state.

    Attributes:
        env: The environment.
        program: What is played.
        ask: Reads a line after a prompt; ``None`` at the end of the input.
        show: Prints a line or block.
        transcript: Where everything is recorded.
        columns: Length of the longest line.
        turn: Actions sent so far.
        rewards: What each of them gave.
        outcome: ``won``, ``lost``, ``cut off``, ``faulty``, ``quit``, ``end of input``, ``interrupted`` or
            ``error``; ``""`` while it goes on.
    """

    env: TextEnv
    program: Program
    ask: Callable[[str], str | None]
    show: Callable[[str], None]
    transcript: Transcript
    columns: int = 80
    turn: int = 0
    rewards: list[float] = field(default_factory=list)
    outcome: str = ""
    _info: Mapping[str, Any] = field(default_factory=dict)
    _tools: list[Mapping[str, Any]] = field(default_factory=list)
    _terminated: bool = False
    _asked: str = ""
    _announced: str = ""
    _declared: list[str] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The return so far: the sum of the rewards within [-1, 1], or the last one where the manifest says so."""
        if self.program.manifest.reward == "last":
            total = self.rewards[-1] if self.rewards and self._terminated else 0.0
        else:
            total = sum(self.rewards)
        return max(-1.0, min(1.0, total))

    def play(self, *, seed: int, hint: bool) -> None:
        """Play to the end, or until the player stops; the outcome and the transcript say how it went."""
        try:
            observation, self._info = self.env.reset(seed=seed, options={"hint": True} if hint else None)
            self._tools = _schemas(self._info.get("tools"))
            self.transcript.write("reset", seed=seed, hint=hint, observation=observation)
            self._announced = observation
            self._declared = [*_texts(self._info.get("commands")), *self.program.manifest.commands]
            self._show_text(observation)
            while not self.outcome:
                self._take_turn()
        except KeyboardInterrupt:
            self.outcome = "interrupted"
        except ProgramFault as fault:
            self._blame(str(fault))
        finally:
            self.outcome = self.outcome or "error"
            self.transcript.write("end", outcome=self.outcome, turns=self.turn, score=self.score)

    def _take_turn(self) -> None:
        """Ask for a line; send it when it is an action."""
        typed = self.ask(self._prompt())
        if typed is None:
            self.outcome = "end of input"
            return
        typed, asked, self._asked = typed.strip(), self._asked, ""
        if typed in (":quit", ":q", ":exit"):
            self.outcome = "quit"
        elif not typed:
            self.show("Type an action, or :help.")
        elif typed.startswith(":"):
            self._meta(typed)
        elif typed.casefold() in _META and typed != asked and not self._declares(typed):
            self._asked = typed
            self.show(f"Did you mean :{typed.casefold()}? To send it as an action, type {typed} once more.")
        else:
            self._send(typed)

    def _send(self, typed: str) -> None:
        try:
            action = compose(typed, setting=self.program.setting, tools=self._tools)
            observation, reward, terminated, truncated, self._info = self.env.step(action)
        except ValueError as error:  # a typing mistake, or an action that is too long: it costs no turn
            self.show(wrap(str(error), columns=self.columns))
            return
        self.turn += 1
        self.rewards.append(float(reward))
        self._terminated = bool(terminated)
        self.transcript.write(
            "step",
            turn=self.turn,
            typed=typed,
            action=action,
            observation=observation,
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            fault=self._info.get("fault", ""),
        )
        self._show_text(observation)
        if reward:
            self.show(f"reward {float(reward):g}, so far {self.score:g}")
        if self._info.get("fault"):
            self._blame(str(self._info["fault"]))
        elif terminated:
            self.outcome = "won" if self.score >= WIN_THRESHOLD else "lost"
        elif truncated:
            self.outcome = "cut off"

    def _declares(self, word: str) -> bool:
        """Tell whether the program itself has a command or tool of this word, as far as is known."""
        tools = [signature(tool).partition(" ")[0] for tool in self._tools]
        known = [*_texts(self._info.get("commands")), *self._declared, *tools]
        whole = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
        boxed = re.compile(rf"\\boxed\s*\{{\s*{re.escape(word)}\b", re.IGNORECASE)
        return any(whole.search(text) for text in known) or bool(boxed.search(self._announced))

    def _blame(self, fault: str) -> None:
        self.outcome = "faulty"
        self.show(wrap(f"The program failed, which is not your fault: {fault}", columns=self.columns))

    def _meta(self, typed: str) -> None:
        if typed == ":hint":
            self.transcript.write("hint", turn=self.turn)
            self._show_text(self.program.manifest.hint or "There is no hint for this program.")
        elif typed == ":commands":
            self._show_text(self._commands())
        elif typed == ":tools":
            lines = [signature(tool) for tool in self._tools]
            self._show_text("\n".join(lines) or "This program has no tools; :commands shows its actions.")
        else:
            if typed != ":help":
                self.show(f"There is no command {visible(typed, newlines=False)}.")
            self.show(_HELP)

    def _commands(self) -> str:
        if self.program.setting == "tool_use":
            return "Call tools: name key=value ...; :tools lists them. done ends."
        commands = _texts(self._info.get("commands")) or list(self.program.manifest.commands)
        if not commands:
            return "The commands are not declared; the text above announces them."
        shown = "\n".join(commands[:_MAX_COMMANDS])
        left = len(commands) - _MAX_COMMANDS
        return shown if left <= 0 else f"{shown}\n... and {left} more"

    def _prompt(self) -> str:
        limit = self.program.manifest.max_turns
        of = f" of {limit}" if limit is not None else ""
        return f"[turn {self.turn + 1}{of}] > "

    def _show_text(self, text: str) -> None:
        self.show("\n" + wrap(text.strip("\n"), columns=self.columns) + "\n")


def introduce(program: Program, *, seed: int, columns: int) -> str:
    """Return what a player reads first."""
    manifest = program.manifest
    facts = ", ".join(fact for fact in (manifest.skill, manifest.difficulty) if fact)
    how = (
        "Call a tool by: name key=value ...; :tools lists the tools, done ends. :help shows more."
        if program.setting == "tool_use"
        else "Type what stands inside \\boxed{...}; the box is added. :help shows more."
    )
    lines = [bold(visible(manifest.name)) + (f"  ({visible(facts)})" if facts else "") + f"  seed {seed}"]
    if manifest.description:
        lines.append(wrap(manifest.description, columns=columns))
    lines.append(wrap(how, columns=columns))
    return "\n".join(lines)


def _schemas(value: Any) -> list[Mapping[str, Any]]:
    """Read the tools of a reset's info: a list of OpenAI schemas, or its JSON."""
    if isinstance(value, str) and value:
        value = json.loads(value)
    return [tool for tool in value if isinstance(tool, Mapping)] if isinstance(value, list | tuple) else []


def _texts(value: Any) -> Sequence[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []
