import random
import sys

import pytest
from jails import need, program, session, stepping, strongest, transcript

from spade_gym.programs.chance import may_draw_globally
from spade_gym.programs.program import Program
from spade_gym.sandbox.base import World
from spade_gym.sandbox.world import Patches, Stage, Universe

SOURCES = {
    "random": "random.random()",
    "randint imported by name": "randint(0, 10**9)",
    "getrandbits": "random.getrandbits(64)",
    "an unseeded generator": "random.Random().random()",
    "a subclass": "Mine().random()",
    "SystemRandom": "random.SystemRandom().random()",
    "SystemRandom.choice": "random.SystemRandom().choice(range(10**9))",
    "importlib": "importlib.import_module('random').random()",
    "sys.modules": "sys.modules['random'].random()",
    "shuffle": "(lambda x: (random.shuffle(x), x)[1])(list(range(20)))",
    "time": "time.time()",
    "time_ns": "time.time_ns()",
    "monotonic": "time.monotonic()",
    "perf_counter": "time.perf_counter()",
    "clock_gettime": "time.clock_gettime(time.CLOCK_REALTIME)",
    "localtime": "time.localtime()",
    "strftime": "time.strftime('%H:%M:%S')",
    "now": "datetime.datetime.now()",
    "now with zone": "datetime.datetime.now(datetime.timezone.utc)",
    "utcnow": "datetime.datetime.utcnow()",
    "today": "datetime.date.today()",
    "now by name": "dt.now().timestamp()",
    "uuid4": "uuid.uuid4()",
    "uuid1": "uuid.uuid1()",
    "secrets": "secrets.token_hex(8), secrets.randbelow(10**9), secrets.choice(range(10**9)), secrets.randbits(64)",
    "secrets by name": "token_urlsafe(8)",
    "urandom": "os.urandom(8)",
    "hash of a text": "hash('a'), sorted({'a', 'b', 'c'}, key=hash)",
    "order of a set": "list({'apple', 'pear', 'fig', 'plum'})",
    "process number": "os.getpid()",
    "the hidden instance": "random._inst.random()",
    "seeding without a seed": "(random.seed(), random.random(), random._inst.seed(None), random.random())[1::2]",
    "posix": "posix.urandom(8), posix.getrandom(8)",
    "the generator in C": "_random.Random().random()",
    "names of temporary files": "next(tempfile._get_candidate_names())",
    "a safe uuid": "_uuid.generate_time_safe()",
    "random bytes of TLS": "ssl.RAND_bytes(8)",
    "used time": "os.times(), resource.getrusage(resource.RUSAGE_SELF), posix.times()",
    "the calendar in C": "_datetime.datetime.now(), _datetime.date.today().toordinal() + time.time()",
}
BEFORE = """
import _datetime, _random, _uuid, datetime, importlib, os, posix, random, resource, secrets, ssl, sys, tempfile, time
import uuid
from datetime import datetime as dt
from random import randint
from secrets import token_urlsafe
class Mine(random.Random): pass
"""
VARIED = World(hash_seed=1, clock=1_600_000_000.0, entropy=7, random_state=7)


def asking(expression: str, before: str = BEFORE) -> Program:
    return stepping(f"return repr(({expression})), 0.0, False, False, {{}}", before=before)


@pytest.mark.parametrize("name", SOURCES)
def test_chance_and_time_come_from_the_seed(name: str) -> None:
    if "datetime" in SOURCES[name] and sys.version_info >= (3, 12) and "utcnow" in name:
        pytest.skip("deprecated")
    what = asking(SOURCES[name])
    first = transcript(what, 1, ["a", "b"])
    assert transcript(what, 1, ["a", "b"]) == first
    constant = {"hash of a text", "order of a set", "process number", "today"}
    clock = {"time", "time_ns", "monotonic", "perf_counter", "clock_gettime", "localtime", "strftime", "now"}
    clock |= {"now with zone", "utcnow", "now by name", "used time", "the calendar in C"}
    if name not in constant | clock:
        assert first[1] != first[2]
        assert transcript(what, 2, ["a", "b"]) != first
    if name not in {"process number", "monotonic", "perf_counter", "used time"}:
        assert transcript(what, 1, ["a", "b"], world=VARIED) != first


def test_play_is_the_same_inside_this_process_and_in_a_worker() -> None:
    for name in ("random", "SystemRandom", "time", "uuid4", "secrets", "now", "shuffle", "urandom"):
        what = asking(SOURCES[name])
        assert transcript(what, 3, ["a", "b"], "L0") == transcript(what, 3, ["a", "b"])


def test_a_seeded_generator_is_pythons_own() -> None:
    what = asking("[random.Random(42).random(), Mine(7).randint(0, 99), random.Random('x').random()]")
    expected = [random.Random(42).random(), random.Random(7).randint(0, 99), random.Random("x").random()]
    assert transcript(what, 0, ["a"])[1] == repr(expected)


def test_seeding_the_global_generator_is_pythons_own() -> None:
    what = stepping(
        "return repr(random.random()), 0.0, False, False, {}", "import random", "random.seed(seed); return '', {}"
    )
    expected = random.Random(5)
    assert transcript(what, 5, ["a", "b"])[1:] == [repr(expected.random()), repr(expected.random())]


NUMPY = {
    "global": "np.random.rand()",
    "by name": "rand()",
    "default_rng": "np.random.default_rng().random()",
    "RandomState": "np.random.RandomState().rand()",
    "permutation": "np.random.permutation(10).tolist()",
    "SeedSequence": "np.random.SeedSequence().entropy",
}


@pytest.mark.parametrize("name", NUMPY)
def test_chance_of_numpy_comes_from_the_seed(name: str) -> None:
    what = asking(NUMPY[name], "import numpy as np\nfrom numpy.random import rand")
    first = transcript(what, 1, ["a", "b"])
    assert first[1] != first[2]
    assert transcript(what, 1, ["a", "b"]) == first
    assert transcript(what, 2, ["a", "b"]) != first


@pytest.mark.parametrize("expression", ["random.random()", "uuid.uuid4()", "time.time()", "np.random.rand()"])
def test_interleaved_instances_are_independent(expression: str) -> None:
    what = asking(expression, BEFORE + ("import numpy as np" if "np." in expression else ""))
    alone = [transcript(what, seed, ["x"] * 3)[1:] for seed in (1, 2)]
    with session(what) as played:
        slots = [played.open(), played.open()]
        played.reset_many([(slots[0], 1), (slots[1], 2)])
        mixed: list[list[str]] = [[], []]
        for which in (0, 1, 1, 0, 1, 0):
            mixed[which].append(played.step(slots[which], "x").observation)
    assert mixed == alone


def test_a_reset_starts_the_world_anew() -> None:
    what = asking("random.random(), time.time(), uuid.uuid4()")
    with session(what) as played:
        slot = played.open()
        played.reset(slot, 1)
        first = played.step(slot, "x").observation
        played.step(slot, "x")
        played.reset(slot, 1)
        assert played.step(slot, "x").observation == first


def test_sleeping_costs_no_time() -> None:
    what = asking("(time.time(), time.sleep(1000), time.time())")
    before, _, after = eval(transcript(what, 0, ["a"])[1])
    assert 1000 < after - before < 1001


def test_dates_behave_like_dates() -> None:
    body = """
    now = datetime.datetime.now()
    import copy, pickle
    class Own(datetime.datetime): pass
    checks = [
        now.year == 2023, isinstance(now, datetime.datetime), isinstance(now, datetime.date),
        isinstance(datetime.date.today(), datetime.date), not isinstance(datetime.date.today(), datetime.datetime),
        issubclass(datetime.datetime, datetime.date), not isinstance(now, Own), isinstance(Own.now(), Own),
        isinstance(now + datetime.timedelta(1), datetime.datetime), (now - now) == datetime.timedelta(0),
        isinstance(now.date(), datetime.date), now.date() == datetime.date.today(),
        datetime.datetime(2024, 2, 29).isoformat() == "2024-02-29T00:00:00",
        datetime.datetime.strptime("2024-02-29", "%Y-%m-%d") == datetime.datetime(2024, 2, 29),
        isinstance(datetime.datetime.strptime("2024-02-29", "%Y-%m-%d"), datetime.datetime),
        datetime.datetime.fromisoformat("2024-02-29T01:02:03").hour == 1, copy.deepcopy(now) == now,
        datetime.date(2024, 1, 1) < datetime.date(2024, 1, 2),
        hash(datetime.date(2024, 1, 1)) == hash(now.date().replace(2024, 1, 1)),
        datetime.datetime.now(datetime.timezone.utc).tzinfo is datetime.timezone.utc,
        type(now).__name__ == "datetime", datetime.datetime.combine(now.date(), now.time()) == now,
    ]
    return str([number for number, good in enumerate(checks) if not good]), 0.0, False, False, {}
    """
    assert transcript(stepping(body, "import datetime"), 0, ["a"])[1] == "[]"


def test_time_zones_can_be_used() -> None:
    body = """
    from zoneinfo import ZoneInfo
    import datetime
    return str(datetime.datetime(2024, 7, 1, tzinfo=ZoneInfo("UTC")).utcoffset()), 0.0, False, False, {}
    """
    assert transcript(stepping(body), 0, ["a"])[1] == "0:00:00"


def test_this_process_gets_its_own_world_back() -> None:
    import datetime
    import os
    import time

    before = (random.random, random.Random, time.time, datetime.datetime, os.urandom, os.getpid)
    transcript(asking("random.random()"), 0, ["a"], "L0")
    assert (random.random, random.Random, time.time, datetime.datetime, os.urandom, os.getpid) == before


def test_a_copied_generator_does_not_disturb_the_stream() -> None:
    stage = Stage()
    patches = Patches(stage)
    patches.install()
    try:
        import copy
        import pickle

        stage.enter(Universe(3, World()))
        mine = random.Random(4)
        expected = stage.universe.entropy.getstate()
        copied = copy.deepcopy(mine)
        assert stage.universe.entropy.getstate() == expected
        assert copied.random() == mine.random()
        assert random.SystemRandom().random() != random.SystemRandom().random()
        with pytest.raises(NotImplementedError):
            random.SystemRandom().getstate()
        assert pickle is not None
    finally:
        patches.remove()


@pytest.mark.parametrize("level", ["L3", "L2", "L1"])
def test_modules_that_programs_use_can_be_imported(level: str) -> None:
    need(level)
    names = (
        "array base64 bisect calendar collections colorsys contextlib copy csv dataclasses datetime decimal difflib "
        "enum fractions functools gzip hashlib heapq html io itertools json logging math numbers operator pathlib "
        "pickle pprint queue random re secrets sqlite3 statistics string struct textwrap threading time typing "
        "unicodedata uuid warnings xml.etree.ElementTree zlib zoneinfo configparser tomllib ast inspect abc types "
        "traceback timeit shelve urllib.parse concurrent.futures asyncio multiprocessing email.message"
    )
    what = program(
        f"import {names.replace(' ', ', ')}"
        + "\nclass XEnv:\n    def reset(self, seed=None): return 'ready', {}\n    def step(self, a): pass\n"
    )
    assert transcript(what, 0, [], level) == ["ready"]


def test_the_worker_tells_nothing_of_its_host() -> None:
    body = "return repr((sys.argv, dict(os.environ), posix.environ, os.getcwd())), 0.0, False, False, {}"
    found = transcript(stepping(body, "import os, posix, sys"), 0, ["a"])[1]
    assert found.startswith("([''], {}, {}, ")


def test_exit_is_defined_as_in_any_script() -> None:
    body = """
    try: exit()
    except SystemExit: return "left", 0.0, False, False, {}
    """
    assert transcript(stepping(body), 0, ["a"]) == ["ready", "left"]
    assert strongest()


@pytest.mark.parametrize(
    ("source", "may"),
    [
        ("import random\nr = random.Random(3)", False), ("import math, re, json, itertools, typing", False),
        ("from random import Random", False), ("import random\nrandom.shuffle([])", True),
        ("from random import shuffle", True), ("import os", True), ("import uuid, queue", True),
        ("from difflib import re", True), ("import heapq\nheapq.__builtins__", True), ("x = __builtins__", True),
        ("import random\nrandom.Random(3)\nrandom._inst.random()", True), ("import collections.abc", False),
        ("from statistics import random", True), ("import logging", True), ("def (", True),
    ],
)  # fmt: skip
def test_who_may_draw_globally(source: str, may: bool) -> None:
    assert may_draw_globally(source) is may


def test_sympys_generator_belongs_to_the_instance() -> None:
    pytest.importorskip("sympy")
    what = asking("rng.random(), sympy.randprime(100, 10**6)", "import sympy\nfrom sympy.core.random import rng")
    with session(what) as played:
        slots = [played.open() for _ in range(3)]
        played.reset_many([(slots[0], 1), (slots[1], 2), (slots[2], 1)])
        first = [played.step(slot, "a").observation for slot in slots]
        point = played.snapshot(slots[0])
        second = [played.step(slot, "a").observation for slot in slots]
        assert first[0] == first[2] != first[1]
        assert second[0] == second[2] != second[1]
        assert second[0] != first[0]
        played.restore(slots[0], point)
        assert played.step(slots[0], "a").observation == second[0]
