from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from conftest import make_program
from design_requests import make_request
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_gym.designer.mutate import MutateDesigner, mutate
from spade_gym.designer.mutation_sites import mutation_sites
from spade_gym.designer.request import DesignerError, Example
from spade_gym.pool import registry
from spade_gym.programs.program import Program, digest_of
from spade_gym.programs.similarity import similarity
from spade_gym.testing import check_designer
from spade_gym.validation.validate import validate

SOURCE = '''import random

COLOURS = ["red", "blue"]
PRICES = {"é": 25, "b": 40, "c": 40.5}  # in coins: 25
REWARD = 7
MOVES = [(0, 1), (1, 0)]


class ShopEnv:
    """A shop of 9 shelves."""

    def __init__(self, max_turns=20, size=6, *, seed_step=5):
        self.max_turns = max_turns

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.goal = rng.randint(2, 5)
        self.doors = rng.sample([10, 20, 30, 50], 3)
        self.open = rng.random() < 0.25
        self.label = f"twelve doors, {self.goal + 11} and 60 %"
        self.stock, self.limit = [12] * 60, 0.6
        return "Buy.", {}

    def step(self, action):
        bonus = 30 if action == "x" else 31
        return "No.", bonus / 100, True, False, {}
'''


def test_only_set_up_numbers_that_no_text_tells_are_sites():
    found = [(site.line, site.name, site.value, site.low, site.high) for site in mutation_sites(SOURCE)]
    assert found == [
        (4, "PRICES", 25, 13, 50),
        (4, "PRICES", 40, 20, 80),
        (4, "PRICES", 40.5, 20.25, 81.0),
        (12, "max_turns", 20, 10, 40),
        (12, "size", 6, 3, 12),
        (17, "randint", 2, 2, 4),
        (17, "randint", 5, 3, 10),
        (18, "sample", 3, 2, 4),
        (19, "random", 0.25, 0.125, 0.5),
    ]


def test_sites_point_at_their_numbers_behind_letters_of_several_bytes():
    data = SOURCE.encode()
    assert [data[site.start : site.end].decode() for site in mutation_sites(SOURCE)] == [
        "25", "40", "40.5", "20", "6", "2", "5", "3", "0.25",
    ]  # fmt: skip


@functools.cache
def bundled() -> list[Program]:
    return list(registry())


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.data())
def test_only_digits_change_and_the_mutation_tells_all(seed: int, data: st.DataObject):
    parent = data.draw(st.sampled_from(bundled()))
    mutant = mutate(parent, np.random.default_rng(seed), max_changes=3)
    if mutant is None:
        assert mutation_sites(parent.source) == ()
        return
    child = mutant.program
    assert re.sub(r"[\d.]+", "0", child.source) == re.sub(r"[\d.]+", "0", parent.source)
    assert child.source != parent.source
    assert similarity(child.source, parent.source) == 1.0
    told = re.findall(r"line (\d+): .*? -> ", mutant.mutation)
    assert 1 <= len(told) <= 3
    pairs = zip(parent.source.split("\n"), child.source.split("\n"), strict=True)
    changed = {number for number, (old, new) in enumerate(pairs, start=1) if old != new}
    assert changed == {int(number) for number in told}
    assert child.manifest.origin["parent"] == parent.digest
    assert child.manifest.origin["mutation"] == mutant.mutation


@given(st.integers(0, 100_000))
def test_values_stay_within_half_and_double_and_in_order(seed: int):
    mutant = mutate(make_program(SOURCE, "ShopEnv"), np.random.default_rng(seed), max_changes=5)
    assert mutant is not None
    low, high = (int(text) for text in re.search(r"randint\((\d+), (\d+)\)", mutant.program.source).groups())
    assert 2 <= low < high <= 10
    prices = [float(text) for text in re.findall(r'"\S": ([\d.]+)', mutant.program.source)]
    assert len(set(prices)) == 3
    assert all(before / 2 <= now <= 2 * before for before, now in zip((25, 40, 40.5), prices, strict=True))
    assert 2 <= int(re.search(r"50\], (\d+)\)", mutant.program.source)[1]) <= 4


def test_mutants_vary_and_equal_chance_gives_equal_mutants():
    parent = make_program(SOURCE, "ShopEnv")
    texts = [mutate(parent, np.random.default_rng(seed)).mutation for seed in range(40)]
    assert len(set(texts)) > 25
    assert texts == [mutate(parent, np.random.default_rng(seed)).mutation for seed in range(40)]


def test_what_may_no_longer_hold_is_left_out_of_the_manifest():
    parent = make_program(SOURCE, "ShopEnv", commands=("buy {1..6}",), max_turns=20, description="Six shelves.")
    manifest = mutate(parent, np.random.default_rng(0)).program.manifest
    assert (manifest.hint, manifest.commands, manifest.max_turns, manifest.description) == ("", (), None, "")


def test_a_program_without_numbers_has_no_mutant():
    assert mutate(make_program("x = 1\n"), np.random.default_rng(0)) is None
    assert mutate(make_program("x = (\n"), np.random.default_rng(0)) is None


def test_no_mutant_twice_and_positive_examples_are_preferred():
    pool = bundled()
    designer = MutateDesigner(pool)
    check_designer(lambda: MutateDesigner(pool))
    replies = designer.write([make_request(f"design/0/{number}/0", seed=1) for number in range(30)])
    digests = [reply.program.digest for reply in replies]
    assert len(set(digests)) == 30
    assert not set(digests) & {program.digest for program in pool}
    positive = Example(SOURCE, 0.5, 0.4)
    (reply,) = designer.write([make_request(positives=(positive,))])
    assert reply.program.manifest.origin["parent"] == digest_of(SOURCE)
    assert reply.program.manifest.skill == "Optimization"


def test_parents_fit_the_skill_and_take_turns():
    requests = [make_request(f"design/0/{number}/0", seed=number) for number in range(6)]
    replies = MutateDesigner(bundled()).write(requests)
    fitting = [item for item in bundled() if (item.setting, item.manifest.skill) == ("multi_turn", "Optimization")]
    parents = [dict(reply.origin)["parent"] for reply in replies]
    assert sorted(parents) == sorted([program.digest for program in fitting] * (6 // len(fitting)))


def test_an_exhausted_or_unfit_pool_gives_error_replies():
    single = make_program('class AEnv:\n    def __init__(self, size=2):\n        "Size."\n', "AEnv")
    replies = MutateDesigner([single]).write([make_request(f"design/0/0/{number}", seed=number) for number in range(4)])
    assert sorted(bool(reply.error) for reply in replies) == [False, True, True, True]
    assert replies[3].error == "no program for the setting multi_turn gave a new mutant"
    with pytest.raises(DesignerError, match="at least one"):
        MutateDesigner([])
    with pytest.raises(ValueError, match="max_changes must be at least 1, got 0"):
        MutateDesigner([single], max_changes=0)


def test_a_mutant_passes_the_checks():
    parent = next(program for program in bundled() if program.name == "RaftBalance")
    mutant = mutate(parent, np.random.default_rng(2))
    verdict = validate(mutant.program)
    assert verdict.accepted, verdict.failures
    assert verdict.program.manifest.max_turns is not None
