"""Which import statements did a program forget?"""

from __future__ import annotations

import ast
import importlib

from spade_gym.programs.names import bound_anywhere, unbound_names
from spade_gym.programs.syntax import parse

_MODULES = (
    *("abc", "base64", "bisect", "calendar", "collections", "copy", "dataclasses", "datetime", "decimal", "enum"),
    *("fractions", "functools", "hashlib", "heapq", "inspect", "io", "itertools", "json", "logging", "math", "numbers"),
    *("operator", "os", "pprint", "queue", "random", "re", "shlex", "statistics", "string", "sys", "textwrap", "time"),
    *("traceback", "types", "typing", "unicodedata", "uuid", "warnings"),
)
_ALIASES = {
    "np": "import numpy as np",
    "numpy": "import numpy",
    "sympy": "import sympy",
    "gymnasium": "import gymnasium",
    "gym": "import gymnasium as gym",
}
#: Names used as such or called, by the module that holds them. Only names that hardly mean anything else.
_MEMBERS = {
    "abc": ("ABC", "abstractmethod"),
    "bisect": ("bisect_left", "bisect_right", "insort"),
    "collections": ("ChainMap", "Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),
    "copy": ("deepcopy",),
    "dataclasses": ("asdict", "dataclass", "field"),
    "datetime": ("timedelta",),
    "decimal": ("Decimal",),
    "enum": ("Enum", "IntEnum", "auto"),
    "fractions": ("Fraction",),
    "functools": ("cmp_to_key", "lru_cache", "partial", "reduce", "total_ordering", "wraps"),
    "heapq": ("heapify", "heappop", "heappush", "heapreplace", "nlargest", "nsmallest"),
    "itertools": (
        *("accumulate", "chain", "combinations", "combinations_with_replacement", "count", "cycle", "groupby"),
        *("islice", "pairwise", "permutations", "product", "repeat", "starmap", "takewhile", "zip_longest"),
    ),
    "math": (
        *("atan2", "ceil", "comb", "factorial", "floor", "gcd", "hypot", "isclose", "isqrt", "lcm", "perm", "prod"),
        *("sqrt", "log2", "log10"),
    ),
    "operator": ("attrgetter", "itemgetter"),
    "random": ("Random", "choice", "choices", "randint", "randrange", "sample", "shuffle", "uniform"),
    "statistics": ("mean", "median"),
    "string": ("ascii_letters", "ascii_lowercase", "ascii_uppercase"),
    "textwrap": ("dedent",),
    "types": ("SimpleNamespace",),
    "typing": (
        *("Any", "Callable", "ClassVar", "DefaultDict", "Deque", "Dict", "Final", "FrozenSet", "Generator", "Iterable"),
        *("Iterator", "List", "Literal", "Mapping", "NamedTuple", "Optional", "Protocol", "Sequence", "Set", "Tuple"),
        *("Type", "TypedDict", "TypeVar", "Union", "cast"),
    ),
}
_HOME = {name: module for module, names in _MEMBERS.items() for name in names}
#: Capitalised or unmistakable names need no call to be recognised.
_UNCALLED = frozenset({*_MEMBERS["typing"], *_MEMBERS["string"], *_MEMBERS["abc"], *_MEMBERS["collections"]}) | {
    *(
        "Decimal",
        "Enum",
        "Fraction",
        "IntEnum",
        "Random",
        "deepcopy",
        "dataclass",
        "gcd",
        "lru_cache",
        "total_ordering",
    ),
}


def missing_import(source: str) -> str | None:
    """Add the imports of well-known names that are used and bound nowhere in the module.

    ``deque`` gives ``from collections import deque``, ``math.gcd`` gives ``import math``, ``np.array`` gives
    ``import numpy as np``. A name that the module binds anywhere is the module's own affair.
    """
    tree = parse(source)
    lines = _imports(tree)
    if not lines:
        return None
    text = source.split("\n")
    place = _first_line_after_header(tree)
    return "\n".join([*text[:place], *sorted(lines), *text[place:]])


def _imports(tree: ast.Module) -> set[str]:
    """Return the import statements that are missing."""
    unbound = unbound_names(tree)
    if not unbound:
        return set()
    bound = bound_anywhere(tree)
    wanted = {id(node): node.id for node in unbound if node.id not in bound}
    attributes: dict[str, set[str]] = {}
    called: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node.value) in wanted:
            attributes.setdefault(wanted[id(node.value)], set()).add(node.attr)
        elif isinstance(node, ast.Call) and id(node.func) in wanted:
            called.add(wanted[id(node.func)])
    found = (_import_of(name, attributes.get(name, set()), name in called) for name in set(wanted.values()))
    return {line for line in found if line}


def _import_of(name: str, attributes: set[str], called: bool) -> str:
    """Return the import statement that provides a name, or ``""``."""
    if name in _ALIASES:
        return _ALIASES[name] if attributes else ""
    if name == "datetime" and (called or attributes & {"now", "strptime", "today", "fromisoformat", "utcnow"}):
        return "from datetime import datetime"
    if name in _MODULES and attributes and not called:
        module = importlib.import_module(name)
        return f"import {name}" if all(hasattr(module, item) for item in attributes) else ""
    if name in _HOME and (called or name in _UNCALLED):
        return f"from {_HOME[name]} import {name}"
    return ""


def _first_line_after_header(tree: ast.Module) -> int:
    """Return how many lines the docstring and the ``__future__`` imports at the start take."""
    end = 0
    for index, node in enumerate(tree.body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (docstring or future):
            break
        end = node.end_lineno or node.lineno
    return end
