r"""Which actions does a program offer?

Two sources: *templates* in a manifest (``open {1..3}``, ``go {north|south}``), which :func:`expand` turns into
concrete commands, and *observations*, in which :func:`discover` reads the commands that the program announces.
Commands are what stands inside ``\boxed{…}``; :func:`spade_gym.programs.boxed.box` puts them back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload

from spade_gym.programs.announcements import ELLIPSIS, Mention, complete_lists, listed_words, mentions
from spade_gym.programs.placeholders import is_placeholder, placeholders
from spade_gym.programs.progressions import fill, is_gapless, shape_of

_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"\s*(-?\d{1,9})\s*\.\.\s*(-?\d{1,9})\s*")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])|\d+")
#: Commands that one observation may announce, and variants of them that are tried, at most.
MAX_COMMANDS = 512
MAX_VARIANTS = 64


class Announced(NamedTuple):
    r"""The commands that a text announces.

    Attributes:
        commands: Concrete commands, in order of appearance, without ``\boxed{}``; those that the text only
            indicates (``open 1 ... open 3``) are filled in.
        templates: Commands with free places as they stand in the text: ``buy <price>``, ``run WORD``, and
            ``""`` for an empty box.
        finite: Whether ``commands`` are evidently *all* commands: no templates, nothing that is only an
            example. ``False`` on doubt and when nothing is announced.
    """

    commands: tuple[str, ...]
    templates: tuple[str, ...]
    finite: bool


def expand(templates: Sequence[str], limit: int) -> tuple[str, ...]:
    """Turn templates into concrete commands, in order and without duplicates.

    ``{1..12}`` stands for the integers from 1 to 12, ``{a|b}`` for ``a`` and ``b``; several groups in one
    template give their product, the last one running fastest. Other braces stand for themselves.

    Args:
        templates: For example ``("look", "move {1..3} {up|down}")``.
        limit: The largest number of commands allowed.

    Raises:
        ValueError: There would be more than ``limit`` commands, or a range runs backwards.
    """
    found: dict[str, None] = {}
    for template in templates:
        parts = [_choices(part, template) for part in _split(template)]
        count = 1
        for part in parts:
            count *= len(part)
        if count > limit or len(found) > limit:
            raise ValueError(f"the templates give more than {limit} commands (the template {template!r} alone {count})")
        found.update(dict.fromkeys("".join(items) for items in itertools.product(*parts)))
    if len(found) > limit:
        raise ValueError(f"the templates give {len(found)} commands, more than {limit}")
    return tuple(found)


def discover(text: str) -> Announced:
    r"""Read the commands that an observation announces.

    Boxes are read first (``\boxed{swap 1 2}, \boxed{swap 2 3}, ..., \boxed{swap 9 10}`` gives nine commands);
    without any box, lists after ``Commands:`` or ``Actions:`` and quoted words after a verb of saying.

    Args:
        text: An observation.
    """
    found = mentions(text)[:MAX_COMMANDS]
    if not found:
        return _discover_words(text)
    complete = complete_lists(text, found)
    templates: dict[str, None] = {}
    commands: dict[str, None] = {}
    for index, mention in enumerate(found):
        alone = len(found) == 1 or mention.role != "plain"
        example = mention.role == "example"
        if is_placeholder(mention.content, example=example, alone=alone, listed=complete[index]):
            templates.setdefault(mention.content)
            continue
        commands.update(dict.fromkeys(_alternatives(mention.content)))
        if mention.continued and index + 1 < len(found):
            before = found[index - 1].content if index else None
            commands.update(dict.fromkeys(fill(before, mention.content, found[index + 1].content, MAX_COMMANDS)))
    concrete = tuple(itertools.islice(commands, MAX_COMMANDS))
    finite = bool(concrete) and not templates and len(commands) <= MAX_COMMANDS
    return Announced(concrete, tuple(templates), finite and _all_told(found, complete, concrete))


def variants(announced: Announced, numbers: Iterable[int] = (0, 1, -1, 10**9)) -> tuple[str, ...]:
    """Return the announced commands, and each with its numbers or free places replaced by ``numbers``.

    At most 64; the announced commands come first, then the variants, spread over the different forms of
    commands.

    Args:
        announced: From :func:`discover`.
        numbers: What to put in; method, section 4 (availability).
    """
    values = [str(number) for number in numbers]
    found = dict.fromkeys(announced.commands)
    forms: dict[str, str] = {}
    for command in announced.commands:
        if _NUMBER.search(command):
            forms.setdefault(shape_of(command), command)
    rounds: list[list[str]] = [[] for _ in values]
    for template in announced.templates:
        for place, value in enumerate(values):
            rounds[place].append(_fill_places(template, value))
    for command in forms.values():
        for place, value in enumerate(values):
            rounds[place] += _replace_numbers(command, value)
    for text in itertools.chain.from_iterable(rounds):
        found.setdefault(text)
    plain = list(found)
    if len(plain) <= MAX_VARIANTS:
        return tuple(plain)
    changed = plain[len(announced.commands) :][: MAX_VARIANTS // 2]
    return tuple([*plain[: min(len(announced.commands), MAX_VARIANTS - len(changed))], *changed])


def _split(template: str) -> list[str]:
    """Split a template into groups (with their braces) and the text between them."""
    return [part for part in re.split(r"(\{[^{}]*\})", template) if part] or [""]


def _choices(part: str, template: str) -> Sequence[str]:
    """Return what one part of a template may stand for."""
    group = _GROUP.fullmatch(part)
    if group is None:
        return (part,)
    if bounds := _RANGE.fullmatch(group[1]):
        first, last = int(bounds[1]), int(bounds[2])
        if first > last:
            raise ValueError(f"the range {part} in the template {template!r} runs backwards; write {{{last}..{first}}}")
        return _Range(first, last)
    if "|" in group[1]:
        return [choice.strip() for choice in group[1].split("|")]
    return (part,)


class _Range(Sequence[str]):
    """The integers of a range as texts; made one at a time, so that a huge range costs nothing."""

    def __init__(self, first: int, last: int) -> None:
        self._numbers = range(first, last + 1)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [str(number) for number in self._numbers[index]]
        return str(self._numbers[index])


def _discover_words(text: str) -> Announced:
    """Read the commands of a text without boxes."""
    words, finite = listed_words(text)
    templates = tuple(word for word in words if placeholders(word))
    commands: dict[str, None] = {}
    for word in words:
        ends = ELLIPSIS.split(word, maxsplit=1)
        if word in templates and len(ends) < 2:
            continue
        commands.setdefault(ends[0])
        if len(ends) == 2:
            commands.update(dict.fromkeys(fill(None, ends[0], ends[1], MAX_COMMANDS)))
            templates = tuple(item for item in templates if item != word)
    concrete = tuple(itertools.islice(commands, MAX_COMMANDS))
    told = finite and bool(concrete) and not templates and len(commands) <= MAX_COMMANDS
    listed = [Mention(command, 0, 0, False, "plain") for command in concrete]
    return Announced(concrete, templates, told and _all_told(listed, [True] * len(concrete), concrete))


def _alternatives(content: str) -> list[str]:
    """Return the commands that one box names: ``north|south`` and ``yes/no`` name two."""
    return re.split(r"[|/]", content) if re.fullmatch(r"[a-z]+(?:[|/][a-z]+)+", content) else [content]


def _all_told(found: Sequence[Mention], complete: Sequence[bool], concrete: Sequence[str]) -> bool:
    """Whether the announced commands are evidently all: none is an example of something wider."""
    families: dict[str, set[str]] = {}
    for command in concrete:
        families.setdefault(shape_of(command), set()).add(command)
    verbs: dict[str, set[str]] = {}
    for command in concrete:
        verbs.setdefault(command.split(" ", 1)[0].lower(), set()).add(command)
    listed = {mention.content for mention, whole in zip(found, complete, strict=True) if whole}
    if any(mention.role != "plain" and mention.content not in listed for mention in found):
        return False
    for command in concrete:
        verb = command.split(" ", 1)[0].lower()
        if _NUMBER.search(command):
            told = is_gapless(families[shape_of(command)])
        else:
            told = command in listed or re.fullmatch(r"[\w-]+", command) is not None or len(verbs[verb]) > 1
        if not told:
            return False
    return True


def _replace_numbers(command: str, value: str) -> list[str]:
    """Return a command with each of its numbers replaced alone, and with all of them replaced."""
    spans = [match.span() for match in _NUMBER.finditer(command)]
    single = [command[:start] + value + command[end:] for start, end in spans]
    return [*single, _NUMBER.sub(value, command)] if len(spans) > 1 else single


def _fill_places(template: str, value: str) -> str:
    """Return a template with a value in each of its free places."""
    spans = placeholders(template)
    if not spans or not template.strip():
        return value
    parts, position = [], 0
    for start, end in spans:
        parts += [template[position:start], value]
        position = end
    return "".join([*parts, template[position:]])
