"""Tool calls as Python values, written as the text that tool-use programs read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from spade_gym.envs.wrappers.text_spaces import need_text_actions

_FORMS = "a text, a dict {'name': ..., 'arguments': {...}}, a pair (name, arguments), or a list of dicts or pairs"


def call(name: str, arguments: Mapping[str, Any] | None = None) -> str:
    r"""Write one tool call as ``<tool_call>…</tool_call>``.

    ``<`` inside values is written as ``\u003c`` (the same JSON text), so no value can close the tag early.

    Raises:
        TypeError: The name is no text, or the arguments are no mapping of JSON values.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a tool must be text, got {name!r}")
    if not isinstance(arguments if arguments is not None else {}, Mapping):
        raise TypeError(f"the arguments of a call of {name} must be a mapping, got {arguments!r}")
    try:
        body = json.dumps({"name": name, "arguments": dict(arguments or {})}, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the arguments of a call of {name} must be JSON values, got {arguments!r}: {error}") from error
    return "<tool_call>" + body.replace("<", "\\u003c") + "</tool_call>"


def answer(text: str = "done") -> str:
    """Write the answer that ends a play, ``<answer>…</answer>``.

    Raises:
        ValueError: The text holds ``</answer>``, which would cut it off.
    """
    if "</answer>" in text:
        raise ValueError(f"an answer must not hold '</answer>', got {text!r}")
    return f"<answer>{text}</answer>"


class ToolCall(gym.ActionWrapper[Any, Any, str], RecordConstructorArgs):
    """Lets actions of a tool-use environment be Python values.

    An action may be a dict ``{"name": …, "arguments": {…}}``, a pair ``(name, arguments)``, a list of these (several
    calls in one turn), or a text, which is passed on unchanged. The action space stays the environment's text space:
    names and arguments are the program's own (``info["tools"]`` holds their JSON schemas), and a wrong one gets an
    error observation from the program.

    Args:
        env: An environment with text actions.

    Raises:
        TypeError: The actions are no texts.

    Example:
        >>> import gymnasium as gym, spade_gym
        >>> from spade_gym.envs.wrappers import ToolCall
        >>> env = ToolCall(gym.make("spade/LarderFiles-v0"))
        >>> env.action(("read_file", {"path": "a.txt"}))
        '<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>'
        >>> env.action(env.answer("done"))
        '<answer>done</answer>'
    """

    call = staticmethod(call)
    answer = staticmethod(answer)

    def __init__(self, env: gym.Env[Any, str]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        need_text_actions(env, "ToolCall")

    def action(self, action: Any) -> str:
        """Return the text of an action.

        Raises:
            TypeError: The action has none of the forms that are allowed.
        """
        if isinstance(action, str):
            return action
        if isinstance(action, list):
            return "\n".join(_one(item) for item in action)
        return _one(action)


def _one(action: Any) -> str:
    if isinstance(action, Mapping) and "name" in action and set(action) <= {"name", "arguments"}:
        return call(action["name"], action.get("arguments"))
    if isinstance(action, Sequence) and not isinstance(action, str) and len(action) == 2:
        return call(action[0], action[1])
    raise TypeError(f"an action must be {_FORMS}; got {action!r}")
