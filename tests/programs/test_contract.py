import ast
import textwrap

import pytest

from spade_gym.errors import ReplyError
from spade_gym.programs.contract import camel_name, read_contract, required_imports

METHODS = """\
    def reset(self, seed=None):
        return "", {}

    def step(self, a):
        return "", 0.0, self.done, False, {}
"""


def env(head, extra=""):
    return f"class {head}:\n{METHODS}{extra}"


def contract_of(source):
    return read_contract(ast.parse(textwrap.dedent(source)))


HELPER_CLASS = "class MachineEnv:\n    def run(self, word):\n        return word\n"
STUB = "class {}:\n    def reset(self, seed=None):\n        {}\n    def step(self, a):\n        {}\n"
CHOICES = {
    "device without reset and step comes first": (HELPER_CLASS + env("BoxEnv"), "BoxEnv"),
    "function named Env": ("def MakeEnv():\n    return BoxEnv()\n" + env("BoxEnv"), "BoxEnv"),
    "helper with reset and step": (
        env("CoreEnv") + env("GameEnv", "    def __init__(self):\n        self.core = CoreEnv()\n"),
        "GameEnv",
    ),
    "helper defined last": (
        env("GameEnv", "    def __init__(self):\n        self.core = CoreEnv()\n") + env("CoreEnv"),
        "GameEnv",
    ),
    "inherited methods": (env("BaseEnv") + "class GameEnv(BaseEnv):\n    pass\n", "GameEnv"),
    "inherited through generics": (
        env("BaseEnv") + "class GameEnv(BaseEnv[int], X):\n    pass\nX = object\n",
        "GameEnv",
    ),
    "abstract base": (
        "import abc\n"
        "class BaseEnv(abc.ABC):\n    @abc.abstractmethod\n    def reset(self, seed=None): ...\n"
        "    def step(self, a):\n"
        "        return 1\n" + "class GameEnv(BaseEnv):\n    def reset(self, seed=None):\n        return '', {}\n",
        "GameEnv",
    ),
    "stubs": (STUB.format("TemplateEnv", "pass", "raise NotImplementedError('later')") + env("GameEnv"), "GameEnv"),
    "protocol": ("from typing import Protocol\n" + env("PlayableEnv(Protocol)") + env("GameEnv"), "GameEnv"),
    "named Env before others": (env("Robot") + env("GameEnv") + env("Walker"), "GameEnv"),
    "wrapper that needs an environment": (
        env("GameEnv") + env("LoggedEnv", "    def __init__(self, env):\n        self.env = env\n"),
        "GameEnv",
    ),
    "unknown base": (env("GameEnv") + env("OtherEnv(Missing)"), "GameEnv"),
    "private": (env("_GameEnv") + env("GameEnv"), "GameEnv"),
    "played in the demo": (
        env("AEnv") + env("BEnv") + "if __name__ == '__main__':\n    e = AEnv()\n",
        "AEnv",
    ),
    "class in the demo": (env("AEnv") + "if __name__ == '__main__':\n    class BEnv(AEnv):\n        pass\n", "AEnv"),
    "under try": (
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nelse:\n    pass\n" + env("AEnv"),
        "AEnv",
    ),
    "with a solution": (env("AEnv", "    def solution(self):\n        return ''\n") + env("BEnv"), "AEnv"),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_environment_is_chosen_by_contract(case):
    source, name = CHOICES[case]
    assert contract_of(source).class_name == name


@pytest.mark.parametrize(
    ("source", "adapters", "setting"),
    [
        (env("GameEnv"), (), "multi_turn"),
        (env("GameEnvGEM"), (), "multi_turn"),
        (env("Game"), ("class_name",), "multi_turn"),
        (env("GameEnvironment"), ("class_name",), "multi_turn"),
        ("import gymnasium as gym\n" + env("GameEnv(gym.Env)"), ("gymnasium_env",), "multi_turn"),
        ("import gymnasium\n" + env("GameEnv(gymnasium.Env[str, str])"), ("gymnasium_env",), "multi_turn"),
        ("from gymnasium import Env as E\n" + env("GameEnv(E)"), ("gymnasium_env",), "multi_turn"),
        ("from gem.core import Env\n" + env("Game(Env)"), ("class_name", "gem_env"), "multi_turn"),
        ("import gem\n" + env("GameEnv(gem.core.Env)"), ("gem_env",), "multi_turn"),
        ("class DeskEnv(ToolUseBaseEnv):\n    def tool_a(self): ...\n", (), "tool_use"),
        ("class B(ToolUseBaseEnv):\n    def tool_a(self): ...\nclass DeskEnv(B):\n    pass\n", (), "tool_use"),
        (env("GameEnv").replace("self.done", "True"), (), "single_turn"),
        (env("GameEnv", "    def __init__(self, max_turns=1):\n        pass\n"), (), "single_turn"),
    ],
)
def test_adapters_and_setting(source, adapters, setting):
    contract = contract_of(source)
    assert (contract.adapters, contract.setting) == (adapters, setting)


@pytest.mark.parametrize(
    ("signature", "turns"),
    [
        ("self, max_turns=7, **kwargs", 7),
        ("self, size, max_turns=7", 7),
        ("self, *, size=3, max_turns: int = 9", 9),
        ("self, max_steps=4", 4),
        ("self, max_turns=LIMIT", 12),
        ("self, max_turns=None", None),
        ("self, max_turns=True", None),
        ("self, max_turns=0", None),
        ("self, max_turns=2 * 3", None),
        ("self", None),
    ],
)
def test_the_turn_limit_is_read_where_it_is_written(signature, turns):
    source = "LIMIT = 12\n" + env("GameEnv", f"    def __init__({signature}):\n        pass\n")
    assert contract_of(source).max_turns == turns


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1", "defines no class"),
        ("def FooEnv(): pass", "only the functions FooEnv"),
        (
            "class FooEnv:\n    def reset(self): pass\n    def step(self, a): pass",
            "FooEnv (line 1) leaves reset and step unwritten",
        ),
        ("class FooEnv:\n    def step(self, a):\n        return 1", "has no reset"),
        ("class FooEnv:\n    pass\nclass Bar:\n    pass", "FooEnv (line 1) has no reset and no step; Bar (line 3)"),
        ("class DeskEnv(ToolUseBaseEnv):\n    def reset(self, seed=None):\n        return 1", "has no tool_… method"),
        (env("FooEnv(BaseGame)"), "extends BaseGame, which is defined nowhere"),
        (env("FooEnv").replace("def step", "async def step"), "async step"),
        (
            "from abc import ABC, abstractmethod\n"
            + env("FooEnv(ABC)", "    @abstractmethod\n    def draw(self):\n        return 1\n"),
            "is abstract (draw)",
        ),
        ("\n".join(f"class C{i}: pass" for i in range(201)), "201 classes"),
    ],
)
def test_what_is_missing_is_said(source, words):
    with pytest.raises(ReplyError) as caught:
        contract_of(source)
    assert caught.value.check == "contract"
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("EchoCaveEnv", "EchoCave"),
        ("EchoCaveEnvGEM", "EchoCave"),
        ("EchoCaveEnvironment", "EchoCave"),
        ("echo_cave_env", "EchoCave"),
        ("Game2048Env", "Game2048"),
        ("ÉnigmeEnv", "Enigme"),
        ("Env", "Env"),
        ("_HiddenEnv", "Hidden"),
        ("謎", "Program"),
        ("X" * 90, "X" * 64),
    ],
)
def test_a_name_is_made_from_the_class(class_name, name):
    assert camel_name(class_name) == name


def test_required_imports_are_found_wherever_they_stand():
    source = """
    import numpy as np, os.path
    from sympy.core import Integer
    from . import sibling
    def f():
        import math_verify
        return __import__("gem"), importlib.import_module("gymnasium.spaces"), __import__(name)
    """
    expected = {"numpy", "os", "sympy", "math_verify", "gem", "gymnasium"}
    assert required_imports(textwrap.dedent(source)) == expected
    assert required_imports("def (") == frozenset()
    assert required_imports("\x00") == frozenset()
