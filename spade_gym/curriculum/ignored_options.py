"""Does an environment leave unread the options that tasks of kind ``reset`` are?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium

from spade_gym.curriculum.task import Task

_Env = gymnasium.Env[Any, Any]


class IgnoredOptions:
    """Warns once of an environment that goes on as if it had been given no options.

    Gymnasium says nothing about options that an environment does not know. It is taken to ignore one where it has an
    attribute of the very name, a plain value that a reset left as it was although the option is another, and where its
    ``reset`` does not name the option.
    """

    def __init__(self) -> None:
        self._warned = False

    def before(self, env: _Env, task: Task) -> Mapping[str, tuple[object, object]]:
        """Return, before a reset, by name: the attribute's value and the option, where they differ."""
        if self._warned or task.kind != "reset":
            return {}
        inner = env.unwrapped
        both = {name: (getattr(inner, name), value) for name, value in task.value.items() if hasattr(inner, name)}
        return {name: pair for name, pair in both.items() if _plain(pair[0]) and pair[0] != pair[1]}

    def after(self, env: _Env, before: Mapping[str, tuple[object, object]]) -> None:
        """Warn, after the reset, of what it left as it was."""
        inner = env.unwrapped
        code = getattr(type(inner).reset, "__code__", None)
        for name, (value, _) in before.items():
            if getattr(inner, name) != value or (code is not None and name in code.co_consts):
                continue
            self._warned = True
            warnings.warn(
                f"tasks of kind 'reset' give {type(inner).__name__} the option {name!r}, and it seems to ignore it: "
                f"its attribute {name} stayed {value!r}. To set the attribute, make the tasks of kind 'attribute': "
                'Parameters(…, kind="attribute")',
                UserWarning,
                stacklevel=4,
            )
            return


def _plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str)
