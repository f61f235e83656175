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

    def before(self, env: _Env, task: Task) -> dict[str, object]:
        """Return, before a reset, the attributes that are named as options and have other values."""
        if self._warned or task.kind != "reset":
            return {}
        inner = env.unwrapped
        found = {name: getattr(inner, name) for name in task.value if hasattr(inner, name)}
        return {name: value for name, value in found.items() if _plain(value) and value != task.value[name]}

    def after(self, env: _Env, before: Mapping[str, object]) -> None:
        """Warn, after the reset, of what it left as it was."""
        inner = env.unwrapped
        code = getattr(type(inner).reset, "__code__", None)
        for name, value in before.items():
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
