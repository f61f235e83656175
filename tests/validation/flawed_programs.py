"""Small programs, sound ones and variants with one flaw each, for the tests of the checks."""
# ruff: noqa: E501 - the edits are lines of programs, and read best unbroken

from __future__ import annotations

SUM = r"""
import random
import re


class SumEnv:
    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.a, self.b = rng.randint(10, 99), rng.randint(10, 99)
        self.answer = self.a + self.b
        return f"What is {self.a} + {self.b}? Answer with \\boxed{{number}}.", {}

    def step(self, action):
        match = re.search(r"\\boxed\{([^{}]*)\}", action)
        text = match.group(1).strip() if match else ""
        good = text == str(self.answer)
        return ("Right." if good else "Wrong."), float(good), True, False, {}

    def solution(self):
        return str(self.answer)
"""

VAULT = r'''
import random
import re


class VaultEnv:
    """Two of nine doors hide a coin; each opened door tells whether one is to its left or to its right."""

    def __init__(self, max_turns=8, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.coins = sorted(rng.sample(range(1, 10), 2))
        self.left = list(self.coins)
        self.turn = 0
        return "Two of nine doors hide a coin. Commands: \\boxed{open 1} ... \\boxed{open 9}", {}

    def step(self, action):
        self.turn += 1
        match = re.search(r"\\boxed\{open (-?\d{1,12})\}", action)
        reward, note = 0.0, "Unknown command."
        if match:
            number = int(match.group(1))
            note = f"Empty. The nearest coin is {'above' if self.left[0] > number else 'below'}."
            if number in self.left:
                self.left.remove(number)
                reward, note = 0.5, "A coin!"
        return note, reward, not self.left, bool(self.left) and self.turn >= self.max_turns, {}

    def solution(self):
        return "\n".join(f"open {coin}" for coin in self.coins)
'''

DESK = r"""
import json
import random


class DeskEnv(ToolUseBaseEnv):
    def __init__(self, max_turns=10, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.order, self.want = f"O-{rng.randint(100, 999)}", rng.randint(2, 9)
        order, want = self.order, self.want
        self._state = {"orders": {order: {"quantity": 1, "cancelled": False}}}
        self._expected_answer = "done"
        self._current_msg = 0
        self._user_messages = [f"Set the quantity of {order} to {want}.", f"Now cancel {order}."]
        self._message_criteria = [
            lambda s: s["orders"][order]["quantity"] == want,
            lambda s: s["orders"][order]["cancelled"],
        ]
        text, number = {"type": "string"}, {"type": "integer"}
        self._tools = {
            "set_quantity": self._tool("set_quantity", {"order_id": text, "quantity": number}),
            "cancel": self._tool("cancel", {"order_id": text}),
        }
        return self._user_messages[0], {}

    def _tool(self, name, properties):
        return {"type": "function", "function": {"name": name, "description": name, "parameters": {
            "type": "object", "properties": properties, "required": list(properties)}}}

    def tool_set_quantity(self, order_id, quantity):
        order = self._state["orders"].get(str(order_id))
        if order is None:
            return json.dumps({"error": "not_found"})
        order["quantity"] = quantity
        return json.dumps({"ok": True})

    def tool_cancel(self, order_id):
        order = self._state["orders"].get(str(order_id))
        if order is None:
            return json.dumps({"error": "not_found"})
        order["cancelled"] = True
        return json.dumps({"ok": True})

    def solution(self):
        calls = [("set_quantity", {"order_id": self.order, "quantity": self.want}), ("cancel", {"order_id": self.order})]
        lines = ["<tool_call>" + json.dumps({"name": n, "arguments": a}) + "</tool_call>" for n, a in calls]
        return "\n".join([*lines, "<answer>done</answer>"])
"""


def edited(source: str, *changes: tuple[str, str]) -> str:
    """Return the source with each text replaced once; every text must be there."""
    for old, new in changes:
        assert source.count(old) >= 1, f"{old!r} is not in the program"
        source = source.replace(old, new, 1)
    return source


def without_solution(source: str) -> str:
    """Return the source without its last method."""
    return source[: source.index("    def solution")]


_TEXT_CHECK = "good = text == str(self.answer)"

#: Eight hidden digits, each found by trying, and nothing but a click until all are: no search by chance finds them.
COMBINATION = edited(
    without_solution(VAULT),
    ("sorted(rng.sample(range(1, 10), 2))", "[rng.randint(1, 9) for _ in range(8)]"),
    ("note = f\"Empty. The nearest coin is {'above' if self.left[0] > number else 'below'}.\"", 'note = "Click."'),
    (
        "if number in self.left:\n                self.left.remove(number)\n",
        "self.left = self.left[1:] if self.left[0] == number else self.left\n            if not self.left:\n",
    ),
    ("0.5", "1.0"),
)

FIELD = r"""
import random
import re


class FieldEnv:
    '''Water a field for five days, but never after rain: then doing nothing is right.'''

    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.rain = [rng.random() < 0.5 for _ in range(4)] + [True]
        self.good = self.day = 0
        return f"{self._forecast()} Each day: \\boxed{{water 1}} to \\boxed{{water 9}}, or wait.", {}

    def _forecast(self):
        return f"Day {self.day + 1}: {'rain' if self.day < 5 and self.rain[self.day] else 'sun'}."

    def step(self, action):
        match = re.search(r"\\boxed\{water (\d{1,3})\}", action)
        self.good += (match is None) == self.rain[self.day]
        self.day += 1
        return self._forecast(), float(self.good == 5 and self.day == 5), self.day == 5, False, {}

    def solution(self):
        return "\n".join("wait" if rain else "water 3" for rain in self.rain)
"""

#: Name, source, the check that must name the flaw.
FLAWED: tuple[tuple[str, str, str], ...] = (
    ("set order", edited(SUM, ('f"What is', 'f"{list(set(map(str, range(self.a))))} What is')), "determinism"),
    ("address", edited(SUM, ('f"What is', 'f"{id(self)} What is')), "determinism"),
    (
        "clock",
        edited(SUM, ("import re\n", "import re\nimport time\n"), ("Random(seed)", "Random(time.time())")),
        "determinism",
    ),
    ("unseeded", edited(VAULT, ("random.Random(seed)", "random.Random()")), "determinism"),
    ("global random", edited(VAULT, ("rng.sample", "random.sample")), "determinism"),
    (
        "entropy",
        edited(
            SUM,
            ("import re\n", "import re\nimport secrets\n"),
            ("rng.randint(10, 99), rng", "secrets.randbelow(90) + 10, rng"),
        ),
        "determinism",
    ),
    (
        "class attribute",
        edited(
            SUM,
            ("    def __init__", "    SEEN = []\n\n    def __init__"),
            ("rng = random", "self.SEEN.append(seed)\n        rng = random"),
            ("What is", "Question {len(self.SEEN)}: what is"),
        ),
        "shared_state",
    ),
    (
        "mutable default",
        edited(
            VAULT,
            ("max_turns=8,", "max_turns=8, opened=[],"),
            ("self.max_turns = max_turns", "self.max_turns, self.opened = max_turns, opened"),
            ("number = int(match.group(1))", "number = int(match.group(1))\n            self.opened.append(number)"),
            ("return note,", 'return f"{note} Opened: {self.opened}",'),
        ),
        "shared_state",
    ),
    (
        "second reset",
        edited(
            VAULT,
            ("self.max_turns = max_turns", "self.max_turns, self.turn = max_turns, 0"),
            ("        self.turn = 0\n", ""),
        ),
        "shared_state",
    ),
    (
        "module generator",
        edited(
            SUM,
            ("\n\nclass", "\n\nRNG = random.Random(5)\n\n\nclass"),
            ("rng = random.Random(seed)", "rng = RNG"),
            ("return str(self.answer)", "return str(self.answer)"),
        ),
        "shared_state",
    ),
    (
        "environment variable",
        edited(
            SUM,
            ("import re\n", "import os\nimport re\n"),
            ("rng = random", 'self.home = os.environ.get("HOME", "")\n        rng = random'),
        ),
        "access",
    ),
    (
        "network",
        edited(
            VAULT,
            ("import re\n", "import re\nimport socket\n"),
            (
                "        self.turn += 1\n",
                '        self.turn += 1\n        try:\n            socket.create_connection(("192.0.2.1", 80), timeout=1)\n        except Exception:\n            pass\n',
            ),
        ),
        "access",
    ),
    (
        "process",
        edited(
            SUM,
            ("import re\n", "import os\nimport re\n"),
            (
                "rng = random",
                'try:\n            os.system("true")\n        except Exception:\n            pass\n        rng = random',
            ),
        ),
        "access",
    ),
    (
        "file at import",
        edited(SUM, ("import re\n", 'import re\nWORDS = open("/usr/share/dict/words").read().split()\n')),
        "access",
    ),
    (
        "thread",
        edited(
            SUM,
            ("import re\n", "import re\nimport threading\n"),
            (
                "rng = random",
                "try:\n            threading.Thread(target=print).start()\n        except Exception:\n            pass\n        rng = random",
            ),
        ),
        "access",
    ),
    (
        "native",
        edited(
            SUM,
            ("import re\n", "import re\nimport ctypes\n"),
            (
                "rng = random",
                "try:\n            ctypes.CDLL(None)\n        except Exception:\n            pass\n        rng = random",
            ),
        ),
        "access",
    ),
    ("exit at import", SUM + "\nimport sys\nsys.exit(0)\n", "load"),
    ("raises at import", edited(SUM, ("import re\n", "import re\nLIMIT = 1 / 0\n")), "load"),
    ("reset raises", edited(SUM, ("self.answer = self.a + self.b", "self.answer = self.a + self.c")), "smoke"),
    (
        "endless reset",
        edited(SUM, ("rng = random.Random(seed)", "rng = random.Random(seed)\n        while seed:\n            pass")),
        "smoke",
    ),
    (
        "hanging step",
        edited(
            VAULT,
            (
                "number = int(match.group(1))",
                "number = int(match.group(1))\n            while number > 9:\n                number += 1",
            ),
        ),
        "availability",
    ),
    (
        "huge loop",
        edited(
            VAULT,
            ("number = int(match.group(1))", "number = int(match.group(1))\n            sum(1 for _ in range(number))"),
        ),
        "availability",
    ),
    (
        "division",
        edited(VAULT, ("number = int(match.group(1))", "number = int(match.group(1))\n            ratio = 1 / number")),
        "availability",
    ),
    (
        "index",
        edited(
            VAULT,
            (
                "number = int(match.group(1))",
                "number = int(match.group(1))\n            [0] * 10\n            ([0] * 10)[number]",
            ),
        ),
        "availability",
    ),
    ("nonsense raises", edited(SUM, (_TEXT_CHECK, "good = int(text) == self.answer")), "smoke"),
    (
        "late failure",
        edited(
            VAULT,
            ("        self.turn += 1\n", "        self.turn += 1\n        self.left[2 - self.turn // 5]\n"),
            ("self.left = list(self.coins)", "self.left = list(self.coins) + []"),
        ),
        "availability",
    ),
    ("long observation", edited(SUM, ('("Right." if good else "Wrong.")', '"x" * 1_000_000')), "smoke"),
    (
        "input",
        edited(
            VAULT,
            (
                'note = 0.0, "Unknown command."',
                'note = 0.0, "Unknown command."\n        if not match:\n            action = input("Your move: ")',
            ),
        ),
        "input_call",
    ),
    ("not a number", edited(SUM, ("float(good)", 'float("nan") if not good else 1.0')), "reward"),
    ("negative", edited(VAULT, ("reward, note = 0.0,", "reward, note = -0.1,")), "reward"),
    (
        "more than one",
        edited(
            VAULT,
            (
                "self.left.remove(number)\n                reward, note = 0.5",
                "self.left.remove(number)\n                reward, note = 0.8",
            ),
        ),
        "reward",
    ),
    ("farming", edited(VAULT, ("self.left.remove(number)", "pass")), "reward"),
    ("large", edited(VAULT, ('reward, note = 0.5, "A coin!"', 'reward, note = 50.0, "A coin!"')), "reward"),
    ("endless", edited(VAULT, ("bool(self.left) and self.turn >= self.max_turns", "False")), "termination"),
    (
        "only good moves count",
        edited(VAULT, ("        self.turn += 1\n", ""), ("if match:", "if match:\n            self.turn += 1")),
        "termination",
    ),
    ("wrong solution", edited(SUM, ("return str(self.answer)", "return str(self.answer + self.a % 2)")), "solution"),
    ("solution raises", edited(SUM, ("return str(self.answer)", "return str(self.result)")), "solution"),
    ("no full return", edited(VAULT, ('reward, note = 0.5, "A coin!"', 'reward, note = 0.4, "A coin!"')), "solution"),
    (
        "always one",
        edited(SUM, (_TEXT_CHECK, 'good = text == "1"'), ("return str(self.answer)", 'return "1"')),
        "trivial_policy",
    ),
    (
        "yes or no",
        edited(
            SUM,
            ("Answer with \\\\boxed{{number}}.", "Is it even? \\\\boxed{{yes}} or \\\\boxed{{no}}"),
            ("self.answer = self.a + self.b", 'self.answer = "no" if (self.a + self.b) % 2 else "yes"'),
        ),
        "trivial_policy",
    ),
    (
        "first example wins",
        edited(
            SUM,
            ("\\\\boxed{{number}}", "a number, like \\\\boxed{{47}}"),
            ("self.answer = self.a + self.b", "self.answer = 47"),
        ),
        "trivial_policy",
    ),
    ("anything wins", edited(SUM, (_TEXT_CHECK, "good = bool(match)")), "trivial_policy"),
    ("substring", edited(SUM, (_TEXT_CHECK, "good = text in str(self.answer)")), "empty_answer"),
    ("all numbers", edited(SUM, (_TEXT_CHECK, 'good = str(self.answer) in re.findall(r"\\d+", text)')), "empty_answer"),
    (
        "not a number passes",
        edited(
            SUM,
            (
                _TEXT_CHECK,
                "good = True\n        try:\n            if abs(float(text) - self.answer) > 1e-6:\n                good = False\n        except ValueError:\n            good = False",
            ),
        ),
        "empty_answer",
    ),
    ("first digit", edited(SUM, (_TEXT_CHECK, "good = text[:1] == str(self.answer)[:1]")), "empty_answer"),
    ("leak in a note", edited(SUM, ("Answer with", "[debug: target={self.answer}] Answer with")), "answer_leak"),
    ("leak in the example", edited(SUM, ("{{number}}", "{{{self.answer}}}")), "answer_leak"),
    (
        "leak as a command",
        edited(
            without_solution(VAULT),
            ("Two of nine doors hide a coin. Commands", '" + f"Position: {self.left[0]}" + ".\\n\\nCommands'),
            ('reward, note = 0.5, "A coin!"', 'self.left, reward, note = [], 0.9, "A coin!"'),
        ),
        "answer_leak",
    ),
    (
        "eval",
        edited(
            SUM,
            (
                _TEXT_CHECK,
                "try:\n            good = eval(text) == self.answer\n        except Exception:\n            good = False",
            ),
        ),
        "eval_injection",
    ),
    (
        "exec",
        edited(
            SUM,
            (
                _TEXT_CHECK,
                'names = {}\n        try:\n            exec("value = " + text, names)\n        except Exception:\n            pass\n        good = names.get("value") == self.answer',
            ),
        ),
        "eval_injection",
    ),
    (
        "eval without builtins",
        edited(
            VAULT,
            (r"open (-?\d{1,12})\}", r"open ([^{}]*)\}"),
            (
                "number = int(match.group(1))",
                'try:\n                number = eval(match.group(1), {"__builtins__": {}})\n                number = int(number)\n            except Exception:\n                number = 0',
            ),
        ),
        "eval_injection",
    ),
    (
        "eval of the right numbers",
        edited(
            SUM,
            (
                _TEXT_CHECK,
                'good = re.findall(r"\\d+", text) == [str(self.a), str(self.b)]\n        try:\n            good = good and eval(text) == self.answer\n        except Exception:\n            good = False',
            ),
            ("return str(self.answer)", 'return f"{self.a}+{self.b}"'),
        ),
        "eval_injection",
    ),
    (
        "solution raises on one seed in ten",
        edited(SUM, ("return str(self.answer)", "return str(self.answer // (1 if SEED != 7 else 0))"))
        .replace("class SumEnv", "SEED = 0\n\n\nclass SumEnv")
        .replace("        rng = random", "        global SEED\n        SEED = seed\n        rng = random"),
        "solution",
    ),
    ("reset raises on one seed", edited(SUM, ("rng = random", "assert seed != 3\n        rng = random")), "smoke"),
    (
        "criterion over a list of all instances",
        edited(
            DESK,
            ("\n\nclass DeskEnv", "\nCANCELLED = []\n\n\nclass DeskEnv"),
            ('lambda s: s["orders"][order]["cancelled"],', "lambda s: order in CANCELLED,"),
            ('order["cancelled"] = True', "CANCELLED.append(order_id)"),
        ),
        "shared_state",
    ),
    (
        "verb in capitals, read in small letters",
        edited(
            without_solution(VAULT),
            ("\\\\boxed{open 1} ... \\\\boxed{open 9}", "\\\\boxed{OPEN left}, \\\\boxed{OPEN right}"),
            ("action)\n        reward", "action.lower())\n        reward"),
            (r"open (-?\d{1,12})", r"OPEN (-?\d{1,12})"),
        ),
        "unwinnable",
    ),
    (
        "prefix",
        edited(SUM, (_TEXT_CHECK, "good = bool(text) and str(self.answer).startswith(text)")),
        "empty_answer",
    ),
    ("unknown verb", edited(without_solution(VAULT), (r"open (-?\d{1,12})", r"pull (-?\d{1,12})")), "unwinnable"),
    (
        "no tools",
        edited(
            DESK,
            (
                '            "set_quantity": self._tool("set_quantity", {"order_id": text, "quantity": number}),\n            "cancel": self._tool("cancel", {"order_id": text}),\n',
                "",
            ),
        ),
        "tool_schema",
    ),
    ("tool without method", edited(DESK, ("def tool_cancel", "def cancel_order")), "tool_schema"),
    (
        "undeclared argument",
        edited(DESK, ("def tool_cancel(self, order_id)", "def tool_cancel(self, order_id, reason)")),
        "tool_schema",
    ),
    ("unknown argument", edited(DESK, ("def tool_cancel(self, order_id)", "def tool_cancel(self)")), "tool_schema"),
    ("no JSON type", edited(DESK, ('{"type": "integer"}', '{"type": "int"}')), "tool_schema"),
    ("true at reset", edited(DESK, ('{"quantity": 1,', '{"quantity": want,')), "reset_gate"),
    (
        "raises at reset",
        edited(DESK, ('s["orders"][order]["cancelled"]', 's["orders"]["O-500"]["cancelled"]')),
        "reset_gate",
    ),
    (
        "no criteria",
        edited(
            DESK,
            (
                '            lambda s: s["orders"][order]["quantity"] == want,\n            lambda s: s["orders"][order]["cancelled"],\n',
                "",
            ),
        ),
        "reset_gate",
    ),
    (
        "never true",
        edited(DESK, ('s["orders"][order]["quantity"] == want', 's["orders"][order]["quantity"] == want + 0.5')),
        "solution",
    ),
    (
        "tool raises",
        edited(DESK, ('order["quantity"] = quantity', 'order["quantity"] = 100 // quantity and quantity')),
        "availability",
    ),
)

#: Name, source, a text that some warning must hold (``""``: none is asked for).
SOUND: tuple[tuple[str, str, str], ...] = (
    ("sum", SUM, ""),
    ("vault", VAULT, ""),
    ("desk", DESK, ""),
    ("no solution", without_solution(VAULT), "missing_solution"),
    (
        "step after the end",
        edited(VAULT, ("        self.turn += 1\n", "        self.turn += 1\n        self.left[0]\n")),
        "after the end",
    ),
    ("constant class attribute", edited(SUM, ("    def __init__", "    NAMES = []\n\n    def __init__")), ""),
    ("hidden combination", COMBINATION, ""),
    (
        "endless history",
        edited(
            COMBINATION,
            ("self.left[0] == number", "self.left[0] == number and len(self.log) > 7"),
            (
                "        self.turn += 1\n",
                "        self.turn += 1\n        self.log = [*getattr(self, 'log', []), action]\n",
            ),
        ),
        "could not be exhausted",
    ),
    ("four values", edited(SUM, ("float(good), True, False, {}", "float(good), True, {}")), "four_tuple_step"),
    ("observation only", edited(SUM, ('{{number}}.", {}', '{{number}}."')), "observation_only_reset"),
    (
        "literal_eval",
        edited(
            SUM,
            ("import re\n", "import ast\nimport re\n"),
            (
                _TEXT_CHECK,
                "try:\n            good = ast.literal_eval(text) == self.answer\n        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):\n            good = False",
            ),
        ),
        "",
    ),
    (
        "arithmetic only",
        edited(
            SUM,
            (
                _TEXT_CHECK,
                'good = bool(re.fullmatch(r"[\\d+ ]{1,20}", text))\n        try:\n            good = good and eval(text) == self.answer\n        except SyntaxError:\n            good = False',
            ),
        ),
        "numbers of a player reach it",
    ),
    ("input behind a main guard", SUM + '\nif __name__ == "__main__":\n    print(SumEnv().step(input("> ")))\n', ""),
    (
        "one of four names",
        edited(
            SUM,
            ("\\\\boxed{{number}}", "one of Arlo, Bram, Cora, Dina, like \\\\boxed{{Arlo}}"),
            ("self.answer = self.a + self.b", 'self.answer = ["Arlo", "Bram", "Cora", "Dina"][self.a % 4]'),
        ),
        "",
    ),
    (
        "numbers of the task",
        edited(
            SUM,
            (
                "self.answer = self.a + self.b",
                "self.answer = rng.choice([self.a, self.b, self.a + self.b, self.a * self.b, self.a - self.b])",
            ),
        ),
        "",
    ),
    (
        "near enough",
        edited(
            SUM,
            (
                _TEXT_CHECK,
                'number = re.search(r"\\d+", text)\n        good = number is not None and abs(int(number.group()) - self.answer) <= 2',
            ),
        ),
        "",
    ),
    (
        "letters in any order",
        edited(
            SUM,
            ("self.answer = self.a + self.b", 'self.answer = "".join(sorted(rng.sample("ABCDEFGH", 3)))'),
            (_TEXT_CHECK, 'good = set(re.findall("[A-H]", text)) == set(self.answer)'),
        ),
        "",
    ),
    ("last move does not matter", FIELD, ""),
    (
        "last amount to spare",
        edited(
            VAULT,
            (
                "number = int(match.group(1))",
                "number = int(match.group(1))\n            number = self.left[0] if number >= 10 * self.left[0] else number",
            ),
            ('"\\n".join(f"open {coin}"', '"\\n".join(f"open {coin * 10 + 5}"'),
        ),
        "",
    ),
    (
        "solution longer than the episode",
        edited(VAULT, ("for coin in self.coins)", 'for coin in self.coins) + "\\nopen 1"')),
        "before the last line",
    ),
    (
        "solution in the order of a set",
        edited(
            VAULT,
            ("self.left[0] > number", "min(self.left) > number"),
            ("for coin in self.coins)", "for coin in set(map(str, self.coins)))"),
        ),
        "",
    ),
    (
        "solution with chance of its own",
        edited(VAULT, ("for coin in self.coins)", "for coin in random.sample(self.coins, 2))")),
        "solution() differs between worlds",
    ),
    (
        "limit set by reset",
        edited(VAULT, ("self.turn = 0\n", "self.turn, self.max_turns = 0, 3 * self.coins[1]\n")),
        "more than max_turns",
    ),
    (
        "infinity raises",
        edited(
            SUM,
            (
                _TEXT_CHECK,
                "try:\n            good = int(float(text)) == self.answer\n        except ValueError:\n            good = False",
            ),
        ),
        "exotic",
    ),
    (
        "one guess of nine",
        edited(
            without_solution(SUM) + "    def solution(self):\n        return str(self.answer)\n",
            ("self.answer = self.a + self.b", "self.answer = rng.randint(1, 9)"),
            ("Answer with \\\\boxed{{number}}.", "Behind which door? \\\\boxed{{1}} ... \\\\boxed{{9}}"),
        ),
        "",
    ),
    (
        "small numbers",
        edited(SUM, ("self.answer = self.a + self.b", "self.answer = bin(self.a * self.b).count('1')")),
        "",
    ),
    (
        "tool calls over several lines",
        edited(
            DESK,
            ('["<tool_call>" + json.dumps(', '["<tool_call>\\n" + json.dumps('),
            ('"arguments": a}) + "</tool_call>"', '"arguments": a}, indent=2) + "\\n</tool_call>"'),
        ),
        "",
    ),
    ("nothing required", edited(DESK, ('"required": list(properties)', '"required": []')), "does not require it"),
    (
        "tool with any arguments",
        edited(
            DESK,
            (
                "def tool_cancel(self, order_id):",
                'def tool_cancel(self, **kwargs):\n        order_id = kwargs["order_id"]',
            ),
        ),
        "",
    ),
    (
        "seed without effect",
        edited(VAULT, ("random.Random(seed)", "random.Random(3)")),
        "no effect of the seed was seen",
    ),
)
