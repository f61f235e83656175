import sys

import pytest

from spade_gym.errors import ReplyError
from spade_gym.programs.sanitise import sanitise

LATIN = "class AEnv:\n    def step(self, a):\n        return 'é', 1\n"


@pytest.mark.parametrize(
    ("source", "repaired", "repairs", "stage"),
    [
        (LATIN, LATIN, (), "raw"),
        ("\ufeffx = 1\n", "x = 1\n", ("strip_bom",), "raw"),
        ("x = 1\r\ny = 2\r", "x = 1\ny = 2\n", ("normalise_newlines",), "raw"),
        ("python\nx = 1\n", "x = 1\n", ("remove_language_tag",), "fence"),
        ("x = 1\n```\n", "x = 1\n", ("remove_stray_fence",), "fence"),
        ("```py\nx = 1\n", "x = 1\n", ("remove_stray_fence",), "fence"),
        ("x = 1\n```\ny = 2\n", "x = 1\ny = 2\n", ("remove_stray_fence",), "fence"),
        ('x = """\n```\n"""\n', 'x = """\n```\n"""\n', (), "raw"),
        ('x = """\n```\n"""\n~~~\n', 'x = """\n```\n"""\n', ("remove_stray_fence",), "fence"),
        ("  x = 1\n  if x:\n    y = 2\n", "x = 1\nif x:\n  y = 2\n", ("dedent",), "repaired"),
        ('    x = """a\nb"""\n    y = 1\n', 'x = """a\nb"""\ny = 1\n', ("dedent",), "repaired"),
        ("if 1:\n\tx = 1\n        y = 2\n", "if 1:\n        x = 1\n        y = 2\n", ("expand_tabs",), "repaired"),
        ("if 1:\n\tx = '\t'\n", "if 1:\n\tx = '\t'\n", (), "raw"),
        ("x\u00a0= \u200b1\n", "x = 1\n", ("remove_invisible",), "repaired"),
        ("x = '\u200b'\n", "x = '\u200b'\n", (), "raw"),
        ("x = “it's”\n", 'x = "it\'s"\n', ("smart_quotes",), "repaired"),
        ("x = ‘a’ + 'it’s'\n", "x = 'a' + 'it’s'\n", ("smart_quotes",), "repaired"),
    ],
)
def test_text_repairs(source, repaired, repairs, stage):
    result = sanitise(source)
    assert (result.source, result.repairs, result.stage) == (repaired, repairs, stage)


BRACES = [
    (r'f"give \\boxed{}."', r'f"give \\boxed{{}}."'),
    (r'f"\\boxed{north} {x}"', r'f"\\boxed{{north}} {x}"'),
    (r'f"\\boxed{guess 5} {x}"', r'f"\\boxed{{guess 5}} {x}"'),
    (r'f"\\boxed{1, 2, 3}"', r'f"\\boxed{{1, 2, 3}}"'),
    (r'f"\\boxed{guess {x}}"', r'f"\\boxed{{guess {x}}}"'),
    (r'f"\\boxed{{ok} {x}"', r'f"\\boxed{{ok}} {x}"'),
    (r'rf"\boxed{}"', r'rf"\boxed{{}}"'),
    (r'f"\\frac{1}{2} {x}"', r'f"\\frac{{1}}{{2}} {x}"'),
    (r'f"\\boxed{\\frac{1}{2}}"', r'f"\\boxed{{\\frac{{1}}{{2}}}}"'),
    (r'f"\\text{hi} {x}"', r'f"\\text{{hi}} {x}"'),
    ('f"a {x}\\n" f"\\\\boxed{yes}"', 'f"a {x}\\n" f"\\\\boxed{{yes}}"'),
    ('f"""a\n{x} \\\\boxed{yes}"""', 'f"""a\n{x} \\\\boxed{{yes}}"""'),
    (r"""f'{"a": 1} {}'""", r"""f'{"a": 1} {{}}'"""),
    (r'f"\N{EM DASH} \\boxed{}"', r'f"\N{EM DASH} \\boxed{{}}"'),
]


@pytest.mark.parametrize(("literal", "repaired"), BRACES)
def test_braces_that_were_meant_as_text_are_doubled(literal, repaired):
    result = sanitise(f"x = 1\ny = ({literal})\n")
    assert result.source == f"x = 1\ny = ({repaired})\n"
    assert (result.repairs, result.stage) == (("brace_repair",), "repaired")


@pytest.mark.parametrize(
    "literal",
    [
        r'f"\\boxed{x}"',
        r'f"\\boxed{{{x}}}"',
        r'f"\\boxed{{ok}}"',
        r'f"{x!r:>10} {x:{x}}"',
        r'"\\boxed{no}"',
        r'f"\\a{len}"',
    ],
)
def test_braces_around_what_exists_are_left_alone(literal):
    source = f"x = 1\ny = ({literal})\n"
    assert sanitise(source).source == source


def test_a_name_that_only_another_function_has_is_text():
    source = 'def f():\n    north = 1\n    return north\ndef g():\n    return f"\\\\boxed{north}"\n'
    assert 'f"\\\\boxed{{north}}"' in sanitise(source).source


NEWER = [
    'f"{x["k"]}"',
    'f"{\', \'.join(x)} {"a"}"',
    'f"{"\\n".join(x)}"',
    'f"{f"{x}"}"',
    'f"{x:{"<"}{9}}"',
    'f"{\n1 # one\n}"',
]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="these f-strings are read from 3.12 on")
@pytest.mark.parametrize("literal", NEWER)
def test_f_strings_for_newer_pythons_are_named(literal):
    with pytest.raises(ReplyError, match=r"need Python 3\.12") as caught:
        sanitise(f"x = {{'k': 1}}\ny = {literal}\n")
    assert caught.value.check == "syntax"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs f-strings of 3.12")
@pytest.mark.parametrize("literal", NEWER)
def test_f_strings_for_newer_pythons_are_read_there(literal):
    source = f"x = {{'k': 1}}\ny = {literal}\n"
    assert sanitise(source).source == source


@pytest.mark.parametrize(
    ("source", "repaired"),
    [
        ('x = "\\boxed{3}"', 'x = "\\\\boxed{3}"'),
        ('x = "\\\\boxed{3}"', 'x = "\\\\boxed{3}"'),
        ('x = "\\\\\\boxed{3}"', 'x = "\\\\\\\\boxed{3}"'),
        ('x = r"\\boxed{3}"', 'x = r"\\boxed{3}"'),
        ('x = f"\\boxed{{3}}"', 'x = f"\\\\boxed{{3}}"'),
        ("import re\nm = re.search('\\boxed{(.*)}', '')", "import re\nm = re.search('\\\\\\\\boxed{(.*)}', '')"),
        ('def f():\n    "\\boxed"', 'def f():\n    "\\boxed"'),
    ],
)
def test_a_backspace_is_no_box(source, repaired):
    assert sanitise(source).source == repaired


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("q = deque([1])", ["from collections import deque"]),
        ("q = math.gcd(4, 6) + random.random()", ["import math", "import random"]),
        ("q = np.zeros(3)", ["import numpy as np"]),
        ("class A:\n    xs: List[int] = []", ["from typing import List"]),
        ("def f(x: Optional[int]) -> Dict[str, int]: ...", ["from typing import Dict", "from typing import Optional"]),
        ("@dataclass\nclass A:\n    x: int = 0", ["from dataclasses import dataclass"]),
        ("P = namedtuple('P', 'x y'); d = defaultdict(list); c = Counter()", ["from collections import Counter"]),
        (
            "def f():\n    return copy.deepcopy([]), deepcopy([]), json.dumps(1)",
            ["import copy", "from copy import deepcopy"],
        ),
        (
            "x = list(permutations([1, 2])); heapq.heappush([], 1); re.match('', '')",
            ["from itertools import permutations"],
        ),
        ("t = datetime.now()", ["from datetime import datetime"]),
        ("t = datetime.datetime.now()", ["import datetime"]),
        ('"""Doc."""\nfrom __future__ import annotations\nx = math.pi', ["import math"]),
    ],
)
def test_forgotten_imports_are_added(source, lines):
    result = sanitise(source)
    assert result.repairs == ("missing_import",)
    added = [line for line in result.source.split("\n") if line not in source.split("\n")]
    assert set(lines) <= set(added)
    compile(result.source, "p", "exec")


@pytest.mark.parametrize(
    "source",
    [
        "deque = list\nq = deque()",
        "def f(random):\n    return random.x\ndef g():\n    return random.y",
        "from math import *\nx = gcd(1, 2)",
        "x = string.no_such_thing",
        "x = product",
        "x = undefined_name",
        "def f():\n    import math\n    return math.pi\ndef g():\n    return math.pi",
        "def f():\n    x: List = []",
        "from __future__ import annotations\ndef f(x: List): ...",
        "x = [math for math in ()]",
        "def f(x):\n    match x:\n        case {'a': product, **count}:\n            return product(), count()",
    ],
)
def test_names_that_are_the_programs_own_affair(source):
    assert sanitise(source).source == source


@pytest.mark.parametrize(
    ("source", "repaired", "repair"),
    [
        ("import gym\nx = gym.Env", "import gymnasium as gym\nx = gym.Env", "gym_import"),
        ("from gym import spaces as s", "from gymnasium import spaces as s", "gym_import"),
        ("import gymnasium as gym", "import gymnasium as gym", None),
        ("from tools.base import ToolUseBaseEnv\nx = 1", "pass\nx = 1", "host_base"),
        ("from base import ToolUseBaseEnv as B, c", "B = ToolUseBaseEnv; from base import c", "host_base"),
        ("class ToolUseBaseEnv:\n    pass\nclass AEnv(ToolUseBaseEnv):\n    pass", None, "host_base"),
        ("class ToolUseBaseEnv:\n    def step(self, a):\n        return a", None, None),
    ],
)
def test_what_the_host_provides(source, repaired, repair):
    result = sanitise(source)
    assert result.repairs == ((repair,) if repair else ())
    assert "class ToolUseBaseEnv" not in result.source or repair is None
    if repaired is not None:
        assert result.source == repaired


def test_several_repairs_are_recorded_in_order():
    result = sanitise(
        "Here's a game:\n\nclass A:\n    s = f'\\\\boxed{}'\n    d = deque()\n\nIt's fun, isn't it?\n", bare=True
    )
    assert result.repairs == ("leading_prose", "brace_repair", "trailing_prose", "missing_import")
    assert result.source.startswith("from collections import deque\nclass A:\n    s = f'\\\\boxed{{}}'")
    assert result.stage == "repaired"


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def f(self):\n        x = 'cut of",
        'RULES = """You play.\nThe rules are',
        "x = (1,\n2",
        "class A:\n    def f(self",
        "x = 1 +\n",
    ],
)
def test_code_that_was_cut_off_is_never_shortened(source):
    with pytest.raises(ReplyError, match="does not compile"):
        sanitise(source, bare=True)


def test_sanitising_twice_changes_nothing():
    once = sanitise("x = f'\\boxed{}' + deque()\r\n")
    assert sanitise(once.source) == (once.source, (), "raw")
