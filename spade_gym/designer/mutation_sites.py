"""Which numbers of a program may be changed, and to what, so that the program stays sound more often than not?

Numbers that set up an instance: defaults of the constructor, constants and small tables, sizes and ranges that are
drawn from, chances. Left alone are 0 and 1, which mostly are structure; rewards; whatever ``step``, ``solution`` and
tools compute with; all texts; and every number that a text of the program also tells, for the text would lie.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spade_gym.programs.syntax import parse

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_RANGES = frozenset({"randint", "randrange", "uniform", "range"})
_LEFT_ALONE = re.compile(r"reward|score|credit|share|weight|bonus|points|partial|tools|seed|version", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(\.\d+)?")
_MAX_TABLE = 64
_MAX_VALUE = 1_000_000


@dataclass(frozen=True, slots=True)
class Site:
    """A number of a program's text that may be changed.

    Attributes:
        start: Index of its first byte in the UTF-8 text.
        end: Index after its last byte.
        line: On which it stands, from 1.
        name: What it is called: an argument, a constant, or the function that it is passed to.
        value: The number, at least 2 for whole numbers, positive for others.
        low: Smallest value that it may get.
        high: Largest value that it may get.
        group: Sites of one group depend on one another; only one of them may change at a time.
        taken: Values that would repeat an element of the same table.
    """

    start: int
    end: int
    line: int
    name: str
    value: int | float
    low: int | float
    high: int | float
    group: int
    taken: frozenset[int | float] = frozenset()


def mutation_sites(source: str) -> tuple[Site, ...]:
    """Return the numbers of a program that may be changed, in the order of the text.

    Raises:
        ReplyError: The source does not compile here.
    """
    tree = parse(source)
    finder = _Finder(source, tree)
    finder.assignments(tree.body)
    for scope in _classes(tree):
        finder.assignments(scope.body)
    for function in _set_up(tree):
        finder.defaults(function)
        finder.assignments(ast.walk(function))
    for node in _generating(tree):
        if isinstance(node, ast.Call):
            finder.call(node)
        elif isinstance(node, ast.Compare):
            finder.chance(node)
    return tuple(sorted(finder.sites.values(), key=lambda site: site.start))


class _Finder:
    """Collects sites by their place in the text."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.sites: dict[int, Site] = {}
        self._bytes = source.encode("utf-8")
        self._lines = [0]
        for line in self._bytes.split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._told = _told_numbers(tree)

    def defaults(self, function: ast.FunctionDef) -> None:
        """Numbers that arguments have by default."""
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args]
        positional = list(zip(reversed(named), reversed(arguments.defaults), strict=False))
        for argument, value in [*positional, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]:
            if value is not None:
                self._add(value, argument.arg)

    def assignments(self, statements: Iterable[ast.AST]) -> None:
        """Numbers and tables of numbers that are given a name."""
        for node in statements:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            self._value(node.value, ", ".join(ast.unparse(target) for target in targets)[:80])

    def call(self, node: ast.Call) -> None:
        """Numbers that a draw or a range is given."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _RANGES:
            self._bounds(node, name)
        elif name == "sample" and len(node.args) == 2:
            self._add(node.args[1], name, high=_length(node.args[0]))
        elif name == "choices":
            for keyword in node.keywords:
                if keyword.arg == "k":
                    self._add(keyword.value, name)
        elif name == "choice" and len(node.args) == 1:
            self._value(node.args[0], name)

    def chance(self, node: ast.Compare) -> None:
        """The number that a random one from 0 to 1 is compared with."""
        drawn = isinstance(node.left, ast.Call) and getattr(node.left.func, "attr", "") == "random"
        if drawn and len(node.comparators) == 1:
            self._add(node.comparators[0], "random", low=0.02, high=0.98)

    def _value(self, node: ast.expr, name: str) -> None:
        """A number, or the numbers of a small table, which stay distinct where they are."""
        if isinstance(node, ast.Constant):
            self._add(node, name)
        elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            numbers = list(_table(node))
            if 0 < len(numbers) <= _MAX_TABLE:
                taken = frozenset(value for number in numbers if (value := _number(number)) is not None)
                for number in numbers:
                    self._add(number, name, group=node, taken=taken)

    def _bounds(self, node: ast.Call, name: str) -> None:
        """The bounds of a range, whose order stays."""
        first = _number(node.args[0]) if node.args else None
        if len(node.args) == 1:
            self._add(node.args[0], name)
        elif len(node.args) == 2:
            last = _number(node.args[1])
            step = 1 if isinstance(first, int) and isinstance(last, int) else 0
            self._add(node.args[0], name, high=None if last is None else last - step, group=node)
            self._add(node.args[1], name, low=None if first is None else first + step, group=node)

    def _add(
        self,
        node: ast.expr,
        name: str,
        *,
        low: int | float | None = None,
        high: int | float | None = None,
        group: ast.expr | None = None,
        taken: frozenset[int | float] = frozenset(),
    ) -> None:
        """Note a number, unless it is to be left alone; it may become half to double of what it is."""
        value = _number(node)
        if value is None or value in self._told or _LEFT_ALONE.search(name) or value > _MAX_VALUE:
            return
        if value < 2 if isinstance(value, int) else value <= 0:
            return
        least, most = (max(2, -(-value // 2)), 2 * value) if isinstance(value, int) else (value / 2, 2 * value)
        if isinstance(value, float) and value < 1:
            most = min(most, 1.0)
        if isinstance(value, int):
            low, high = low if low is None else math.ceil(low), high if high is None else math.floor(high)
        least, most = max(least, low if low is not None else least), min(most, high if high is not None else most)
        start, end = self._place(node)
        if least < most and least <= value <= most and _NUMBER.fullmatch(self._bytes[start:end].decode("utf-8")):
            key = self._place(group)[0] if group is not None else start
            self.sites.setdefault(start, Site(start, end, node.lineno, name, value, least, most, key, taken))

    def _place(self, node: ast.expr) -> tuple[int, int]:
        """The place of a node in the bytes of the text."""
        last, after = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[last - 1] + after


def _number(node: ast.expr) -> int | float | None:
    """The number that a node is, if it is one; true and false are none."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return None
    return node.value if isinstance(node.value, int | float) else None


def _table(node: ast.expr) -> Iterator[ast.expr]:
    """The elements of a literal and of the literals in it; keys of a table are no elements."""
    for item in node.values if isinstance(node, ast.Dict) else getattr(node, "elts", []):
        if isinstance(item, ast.List | ast.Tuple | ast.Set | ast.Dict):
            yield from _table(item)
        else:
            yield item


def _length(node: ast.expr) -> int | None:
    """How many elements a literal has, where that is seen."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return len(node.elts)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return len(node.value)
    return None


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


def _set_up(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The constructors and resets of a module's classes."""
    for scope in _classes(tree):
        for node in scope.body:
            if isinstance(node, ast.FunctionDef) and node.name in ("__init__", "reset"):
                yield node


def _generating(tree: ast.Module) -> Iterator[ast.AST]:
    """Everything in functions that neither play, nor solve, nor are tools."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and not _plays(function.name):
            for node in ast.walk(function):
                is_range = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range"
                if not is_range or function.name in ("__init__", "reset"):
                    yield node


def _plays(name: str) -> bool:
    return name in ("step", "solution", "close") or name.startswith(("tool_", "_tool"))


def _told_numbers(tree: ast.Module) -> frozenset[int | float]:
    """Numbers that stand in the texts of a program, as digits, words or percentages; docstrings are not shown."""
    found: set[int | float] = set()
    docstrings = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = node.value.lower()
            for match in _NUMBER.finditer(text):
                number = float(match[0])
                found.update((number, number / 100))
            found.update(_WORDS.index(word) for word in re.findall(r"[a-z]+", text) if word in _WORDS)
    return frozenset(found)


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value
