"""The attacks by which the sandbox is judged: small programs, each with a goal, and where it may be reached.

A probe is the body of a ``step``. It reports success by returning a text with the marker ``REACHED`` (a word of
its fixture, so it cannot appear by chance); ``probe_fixture.py`` also looks from outside, so a probe that reaches
its goal and dies, or lies, is found out. ``spade-gym doctor`` runs the quick ones, the tests run all.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Literal

from spade_gym.sandbox.base import Isolation

#: ``varies``: depends on the machine's settings. ``root``: only a privileged user reaches the goal.
#: ``unsafe``: not tried, since nothing would stop it.
Expected = Literal["blocked", "open", "varies", "root", "unsafe"]
#: How a probe ends at L1 and stronger: with an answer, or with a fault of this reason; ``any`` says nothing.
Ending = Literal["any", "answer", "error", "timeout", "crash", "memory", "protocol"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One attack.

    Attributes:
        name: A word.
        goal: What it wants, as a clause ("read a file of the user").
        body: Body of ``step(self, action)``, which sees the names of ``PRELUDE`` and of the fixture. It is called
            with the action ``attack``, and once more with ``again`` if ``twice``.
        l0: What is expected inside this process.
        l1: What is expected in a bare process.
        l2: What is expected without namespaces.
        l3: What is expected with everything.
        ends: How it ends at L1 and stronger when it is blocked.
        twice: Whether there is a second step.
        own_goal: It may spoil other instances of its own program (which it could do anyway).
        quick: Whether ``spade-gym doctor`` runs it.
        step_seconds: Deadline of its steps.
    """

    name: str
    goal: str
    body: str
    l0: Expected = "unsafe"
    l1: Expected = "blocked"
    l2: Expected = "blocked"
    l3: Expected = "blocked"
    ends: Ending = "any"
    twice: bool = False
    own_goal: bool = False
    quick: bool = False
    step_seconds: float = 2.0

    def expected(self, level: Isolation, *, privileged: bool) -> Expected:
        """What should come of it at a level: ``blocked``, ``open``, ``varies`` or ``unsafe``.

        Args:
            level: The isolation.
            privileged: Whether the trainer runs as uid 0.
        """
        value: Expected = (self.l0, self.l1, self.l2, self.l3)[level]
        if value == "root":
            return "open" if privileged else "blocked"
        return value


#: What every probe's program begins with, after the fixture's constants.
PRELUDE = '''
import os, sys

def libc():
    import ctypes
    return ctypes.CDLL(None, use_errno=True)

def number(x86_64, aarch64):
    import platform
    return {"x86_64": x86_64, "aarch64": aarch64}[platform.machine()]

def told(call):
    """Whether a raw system call did anything but fail."""
    import ctypes
    return "errno %d" % ctypes.get_errno() if call < 0 else REACHED + str(call)

def sequence():
    """The number of the request under way, found in the harness's frames."""
    frame = sys._getframe()
    while frame is not None:
        if "request" in frame.f_locals:
            return frame.f_locals["request"].sequence
        frame = frame.f_back

def rows(observations, rewards=None, flags=None, infos=None, last=True, ahead=0, adapters=()):
    """A frame as the worker sends it."""
    from spade_gym.sandbox.wire import Rows, frame
    count = len(observations)
    return frame(Rows(sequence() + ahead, last, observations, rewards or [0.0] * count, flags or [0] * count,
                      infos or {}, list(adapters)))
'''

_PROGRAM = """
class ProbeEnv:
    def __init__(self):
        self.calm = 0

    def reset(self, seed=None):
        self.calm = 0
        return "ready", {}

    def step(self, action):
        if action == "calm":
            self.calm += 1
            return "calm %d" % self.calm, 0.0, False, False, {}
        result = self.attempt(action)
        return result if isinstance(result, tuple) else (result, 0.0, False, False, {})

    def attempt(self, action):
"""


def source_of(probe: Probe, names: dict[str, object]) -> str:
    """The program of a probe.

    Args:
        probe: The attack.
        names: Constants of the fixture, such as the path of a secret file.
    """
    constants = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    body = textwrap.indent(textwrap.dedent(probe.body).strip("\n"), " " * 8)
    return f"{constants}{PRELUDE}{_PROGRAM}{body}\n"
