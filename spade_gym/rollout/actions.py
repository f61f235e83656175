r"""How a reply becomes an action, and an observation the next messages.

Games get the last ``\boxed{…}`` of a reply that stands outside think blocks, and nothing else of it. Tool-use programs
get the reply without its think blocks: the host reads calls and answers out of its text (``sandbox/tool_use.py``).
Source: method, sections 3 and 6 ("environments pass actions on unchanged; parsing replies is the player's business").
"""

from __future__ import annotations

from spade_gym.models.base import Message
from spade_gym.programs.boxed import last_boxed, without_thoughts
from spade_gym.sandbox.tool_calls import parse_tool_calls
from spade_gym.storable import storable
from spade_gym.types import Setting


def action_of(reply: str, setting: Setting, *, most_chars: int, box_raw: bool = False) -> str:
    r"""Return what an environment is given for a reply.

    Args:
        reply: What the model wrote, think block included.
        setting: The program's.
        most_chars: Longest action; of a longer one only the beginning is played (``Limits.action_chars``).
        box_raw: Put a game's reply without a box into one.
    """
    content = None if setting == "tool_use" else last_boxed(reply)
    if content is None:
        content = without_thoughts(reply).strip()
        boxed = box_raw and setting != "tool_use"
    else:
        boxed = True
    action = f"\\boxed{{{content}}}" if boxed else content
    # A server's JSON can smuggle in lone surrogates, which no environment takes.
    return storable(action)[:most_chars]


def messages_of(observation: str, action: str, setting: Setting) -> list[Message]:
    """Return an observation after the first as messages of the chat.

    The results of tool calls are messages of the role ``tool``, one a call where the host numbered several and each can
    be told from the others; what answers no call (an error, a refused answer) is the user's.
    """
    if setting != "tool_use":
        return [Message("user", observation)]
    names = [call.name for call in parse_tool_calls(action)]
    if not names:
        return [Message("user", observation)]
    return [Message("tool", result) for result in _results(observation, names)]


def _results(observation: str, names: list[str]) -> list[str]:
    """Take the numbered results of several calls apart; the whole observation where that is not certain.

    It is not where a result itself holds the mark of a later one at the beginning of a paragraph.
    """
    if len(names) == 1:
        return [observation]
    marks = [f"[{number}] {name or 'malformed'}: " for number, name in enumerate(names, 1)]
    text = "\n\n" + observation
    if any(text.count("\n\n" + mark) != 1 for mark in marks):
        return [observation]
    starts = [text.index("\n\n" + mark) for mark in marks]
    if starts[0] != 0 or starts != sorted(starts):
        return [observation]
    ends = [*starts[1:], len(text)]
    return [text[start + 2 + len(mark) : end] for start, end, mark in zip(starts, ends, marks, strict=True)]
