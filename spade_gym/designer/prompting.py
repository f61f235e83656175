"""How a prompt is made: a Markdown file with named slots, filled in one pass.

A slot is written ``{{name}}``. What is put into a slot is never searched for slots, so a document or a program that
holds ``{{skill}}`` stays what it is. The files are in ``prompts/``; a folder of one's own may replace some of them,
and do without slots that its first line names: ``<!-- without: description, difficulty -->``.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from spade_gym.errors import SpadeError
from spade_gym.plain_file import read_text, shown

_SLOT = re.compile(r"\{\{([a-z_]+)\}\}")
_MAX_BYTES = 1 << 20
#: A template of one's own may say so that it does without some slots, in its first line.
_WITHOUT = re.compile(r"<!-- without: ([a-z_, ]+) -->\n")

_DESIGN = ("skill", "description", "difficulty", "difficulty_description", "material", "positives", "negative")
_TOOL = (*_DESIGN, "domain", "domain_description", "variant", "variant_description")

#: The templates and their slots.
SLOTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "single_turn": _DESIGN,
        "multi_turn": _DESIGN,
        "tool_use_single": _TOOL,
        "tool_use_multi": (*_TOOL, "num_instructions"),
        "document_game": ("document",),
        "document_tool": ("document",),
        "concepts_game": ("concepts",),
        "concepts_tool": ("concepts",),
        "positive": ("win_rate", "regret", "source"),
        "negative": ("verdict", "win_rate", "source"),
        "repair": ("reasons",),
        "hint_game": ("source", "observation"),
        "hint_tool": ("source", "observation"),
        "screen_tool": ("source", "observation"),
    }
)


class PromptError(SpadeError):
    """A template that is missing or unknown, or whose slots are not those that are filled."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text with slots.

    Attributes:
        name: For errors.
        text: With slots ``{{name}}``.
        without: Slots that it does without on purpose.
    """

    name: str
    text: str
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse two opening braces that begin no slot: a slip such as ``{{ skill }}`` would go unnoticed."""
        stray = re.search(r"\{\{(?![a-z_]+\}\})[^\n]{0,40}", self.text)
        if stray is not None:
            raise PromptError(
                f"the prompt {self.name!r} holds {stray[0]!r}, which is no slot; a slot is written {{{{name}}}} with a "
                "name of small letters and _"
            )

    @property
    def slots(self) -> frozenset[str]:
        """Names of its slots."""
        return frozenset(_SLOT.findall(self.text))

    def fill(self, **values: str) -> str:
        """Return the text with every slot replaced.

        Raises:
            PromptError: A slot has no value, or a value has no slot.
        """
        self.check(tuple(values))
        return _SLOT.sub(lambda found: values[found[1]], self.text)

    @classmethod
    def parse(cls, name: str, text: str) -> Template:
        """Read a file of one's own; its first line may be ``<!-- without: description, difficulty -->``."""
        found = _WITHOUT.match(text)
        if found is None:
            return cls(name, text)
        return cls(name, text[found.end() :], frozenset(found[1].replace(",", " ").split()))

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse a template whose slots are not exactly those of the given names, but for those it does without.

        Raises:
            PromptError: They differ.
        """
        unknown, missing = sorted(self.slots - set(names)), sorted(set(names) - self.slots - self.without)
        unknown += sorted(self.without - set(names)) or sorted(self.without & self.slots)
        if unknown:
            raise PromptError(
                f"the prompt {self.name!r} has the slot {unknown[0]!r}, which nothing fills; its slots are "
                f"{', '.join(sorted(names))}"
            )
        if missing:
            raise PromptError(
                f"the prompt {self.name!r} lacks the slot {missing[0]!r}; write {{{{{missing[0]}}}}} where it belongs, "
                f"or <!-- without: {missing[0]} --> as the first line"
            )


class Prompts:
    """The templates of a designer.

    Args:
        folder: Holds ``.md`` files that replace those of the same name; ``None`` for the shipped ones.

    Raises:
        PromptError: The folder holds a template of an unknown name or with other slots, or there is no such folder.
        PoolError: A file is no plain file of text.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self._templates = dict(_shipped())
        if folder is not None:
            self._templates |= _own(Path(folder))

    def __getitem__(self, name: str) -> Template:
        return self._templates[name]

    @property
    def digests(self) -> dict[str, str]:
        """sha256 of each template's text by name, for a run's manifest."""
        texts = {name: template.text for name, template in sorted(self._templates.items())}
        return {name: hashlib.sha256(text.encode("utf-8")).hexdigest() for name, text in texts.items()}


@functools.cache
def _shipped() -> Mapping[str, Template]:
    folder = resources.files("spade_gym.designer") / "prompts"
    found = {name: Template(name, (folder / f"{name}.md").read_text("utf-8")) for name in SLOTS}
    for name, template in found.items():
        template.check(SLOTS[name])
    return MappingProxyType(found)


def _own(folder: Path) -> dict[str, Template]:
    if not folder.is_dir():
        raise PromptError(f"there is no folder {shown(str(folder), limit=300)} with prompts")
    found = {}
    for path in sorted(folder.glob("*.md")):
        name = path.stem
        if name not in SLOTS:
            near = difflib.get_close_matches(name, SLOTS, n=1)
            meant = f"did you mean {near[0]}.md?" if near else f"the prompts are {', '.join(SLOTS)}"
            raise PromptError(f"{shown(str(path), limit=300)} replaces no prompt; {meant}")
        found[name] = Template.parse(name, read_text(path, max_bytes=_MAX_BYTES))
        found[name].check(SLOTS[name])
    return found
