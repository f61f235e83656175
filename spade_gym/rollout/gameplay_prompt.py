r"""What a player is told before its first action.

A template is a Markdown file. Lines ``## system``, ``## user`` and ``## assistant`` begin messages (an example for
small models is an exchange before the real one); a file without them is one message of the user. The last message is
the user's and holds ``{observation}`` once. ``{tools}`` in it lists the tools of a tool-use program, one JSON object a
line; without it they go through the model's own chat template.

Both arms are built here, by the same code: the hinted observation takes the place of the plain one.
"""

from __future__ import annotations

import importlib.resources
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from spade_gym.envs.episode import with_hint
from spade_gym.errors import SpadeError
from spade_gym.models.base import Message, Role
from spade_gym.plain_file import read_text
from spade_gym.programs.program import Program
from spade_gym.types import SETTINGS, Setting

_MAX_BYTES = 1 << 18
_HEADING = re.compile(r"^## (system|user|assistant)[ \t]*\n", re.MULTILINE)
_SLOT = re.compile(r"\{(observation|tools)\}")


class PromptError(SpadeError):
    """A gameplay prompt that cannot be read or has no place for the observation."""


@dataclass(frozen=True, slots=True)
class Template:
    """A gameplay prompt.

    Attributes:
        before: Messages before the one that holds the observation.
        body: Text of that message, with its slots.
    """

    before: tuple[Message, ...]
    body: str

    @property
    def lists_tools(self) -> bool:
        """Whether the prompt itself lists the tools."""
        return "{tools}" in self.body

    def around(self, observation: str, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return the text of the message that shows an observation; slots inside it are only text."""
        values = {"observation": observation, "tools": "\n".join(map(_brief, tools))}
        return _SLOT.sub(lambda slot: values[slot[1]], self.body)

    @classmethod
    def parse(cls, text: str, name: str = "the prompt") -> Template:
        """Read a template.

        Raises:
            PromptError: It has no ``{observation}``, several, or not in a last message of the user.
        """
        pieces = _HEADING.split(text)
        if pieces[0].strip() and len(pieces) > 1:
            raise PromptError(f"{name}: there is text before the first of '## system', '## user' and '## assistant'")
        if len(pieces) == 1:
            pieces = ["", "user", text]
        messages = [_message(role, content) for role, content in zip(pieces[1::2], pieces[2::2], strict=True)]
        counts = [message.content.count("{observation}") for message in messages]
        if messages[-1].role != "user" or counts[-1] != 1 or sum(counts) != 1:
            raise PromptError(
                f"{name}: '{{observation}}' must stand once, in the last message, which must be the user's; "
                f"found {sum(counts)} of it, and the last message is the {messages[-1].role}'s"
            )
        return cls(tuple(messages[:-1]), messages[-1].content)


def read_templates(*, example: bool = False, folder: Path | None = None) -> dict[Setting, Template]:
    """Read the templates of all settings.

    Args:
        example: The bundled ones that show an example.
        folder: Where others lie; only plain files in it are read. ``every.md`` stands for the settings that have no
            file of their own.

    Raises:
        PromptError: One is missing or malformed.
    """
    suffix = "_example" if example else ""
    return {setting: Template.parse(*_text(f"{setting}{suffix}.md", folder)) for setting in SETTINGS}


def first_observation(program: Program, observation: str, *, hint: bool) -> str:
    """Return what a player first sees of an instance: the observation, in the hint arm with the hint below it.

    Raises:
        ValueError: The program has no hint.
    """
    return with_hint(program, observation) if hint else observation


def _text(file: str, folder: Path | None) -> tuple[str, str]:
    if folder is None:
        return importlib.resources.files("spade_gym.rollout").joinpath("prompts", file).read_text("utf-8"), file
    chosen = folder / file
    if not os.path.lexists(chosen) and os.path.lexists(folder / "every.md"):
        chosen = folder / "every.md"
    try:
        return read_text(chosen, max_bytes=_MAX_BYTES), str(chosen)
    except SpadeError as error:
        raise PromptError(f"the gameplay prompts of {str(folder)!r} cannot be read: {error}") from error


def _message(role: str, content: str) -> Message:
    known: Role = role if role in get_args(Role) else "user"  # type: ignore[assignment]
    return Message(known, content.strip("\n"))


def _brief(tool: Mapping[str, Any]) -> str:
    """A tool on one line: name, description and types of arguments; a program's schema may hold anything."""
    function = tool.get("function", tool)
    function = function if isinstance(function, Mapping) else {}
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    types = {
        str(name): schema.get("type", "any") if isinstance(schema, Mapping) else "any"
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
    }
    brief = {"name": function.get("name", ""), "description": function.get("description", ""), "parameters": types}
    return json.dumps({key: value for key, value in brief.items() if value or key == "parameters"}, ensure_ascii=False)
