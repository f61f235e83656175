"""Where a recipe's own prompts lie: a folder, or those of an installed package.

A package offers prompts by an entry point of the group ``spade_gym.prompts`` that names a package with the folders
``designer`` (see ``designer/prompting.py``) and ``player`` (see ``rollout/gameplay_prompt.py``), and perhaps with the
documents that they are made for, ``corpus.jsonl``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Literal

from spade_gym import plugins
from spade_gym.plugins import PluginError

PromptKind = Literal["designer", "player"]


def prompt_folder(name: str, kind: PromptKind) -> Path | None:
    """Return the folder that a text means; ``None`` for the shipped prompts.

    Args:
        name: "" for the shipped ones, the name of a plugin, or a path.
        kind: Whose prompts are meant.

    Raises:
        PluginError: The package of that name is not installed as files, or has no such folder.
    """
    return (_packaged(name, kind) or Path(name)) if name else None


def corpus_path(name: str) -> Path:
    """Return the corpus that a text means.

    Args:
        name: The name of a plugin whose prompts bring documents along, or a path.

    Raises:
        PluginError: The package of that name is not installed as files, or has none.
    """
    return _packaged(name, "corpus.jsonl") or Path(name)


def _packaged(name: str, part: str) -> Path | None:
    """A file or folder of an installed package of prompts; ``None`` where no package has the name."""
    found = [plugin for plugin in plugins.available("prompts") if plugin.name == name]
    if not found:
        return None
    path = resources.files(found[0].target.partition(":")[0]) / part
    if not (isinstance(path, Path) and path.exists()):
        raise PluginError(f"the prompts {name!r} of {found[0].distribution} have no {part}")
    return path
