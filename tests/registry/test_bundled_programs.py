"""What is promised about every bundled program: balance, solvability, difficulty, variety, sound manifests."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from spade_gym.envs.episode import is_win
from spade_gym.errors import ProgramFault
from spade_gym.pool import registry
from spade_gym.programs.boxed import box
from spade_gym.programs.commands import expand
from spade_gym.programs.program import Program
from spade_gym.programs.similarity import similarity
from spade_gym.sandbox.session import Session
from spade_gym.types import GAME_SKILLS, TOOL_SKILLS
from spade_gym.validation.validate import validate

PROGRAMS = sorted(registry(), key=lambda program: program.name)
GAMES = [program for program in PROGRAMS if program.setting != "tool_use"]
SEEDS = range(20)


def names(programs: list[Program]) -> list[str]:
    return [program.name for program in programs]


def play_together(session: Session, scripts: dict[int, list[str]], max_turns: int) -> dict[int, tuple[bool, float]]:
    """Play a script per seed, all side by side; return (terminated, return) by seed."""
    slots = {seed: session.open() for seed in scripts}
    for result in session.reset_many([(slots[seed], seed) for seed in scripts]):
        assert not isinstance(result, ProgramFault), result
    totals = dict.fromkeys(scripts, 0.0)
    ends: dict[int, tuple[bool, float]] = {}
    for turn in range(max_turns):
        alive = [seed for seed in scripts if seed not in ends and turn < len(scripts[seed])]
        results = session.step_many([(slots[seed], scripts[seed][turn]) for seed in alive])
        for seed, result in zip(alive, results, strict=True):
            assert not isinstance(result, ProgramFault), result
            totals[seed] += result.reward
            if result.terminated or result.truncated:
                ends[seed] = (result.terminated, totals[seed])
    return {seed: ends.get(seed, (False, totals[seed])) for seed in scripts}


def test_there_are_enough_of_every_kind() -> None:
    assert len(GAMES) >= 24
    assert sum(program.setting == "multi_turn" for program in GAMES) >= 14
    per_skill = Counter(program.manifest.skill for program in PROGRAMS)
    assert all(per_skill[skill] >= 4 for skill in GAME_SKILLS)
    assert all(per_skill[skill] >= 2 for skill in TOOL_SKILLS)
    assert set(per_skill) == {*GAME_SKILLS, *TOOL_SKILLS}


@pytest.mark.parametrize("program", PROGRAMS, ids=names(PROGRAMS))
def test_manifests_say_what_people_need(program: Program) -> None:
    manifest = program.manifest
    assert len(manifest.hint) > 40
    assert len(manifest.description) > 15
    assert manifest.difficulty in ("easy", "medium", "hard")
    assert manifest.max_turns is not None
    assert manifest.origin["licence"] == "MIT"
    assert (manifest.commands == ()) == (program.setting == "tool_use")
    assert (manifest.skill in TOOL_SKILLS) == (program.setting == "tool_use")


@pytest.mark.parametrize("program", PROGRAMS, ids=names(PROGRAMS))
def test_its_own_solution_wins_on_twenty_seeds(program: Program) -> None:
    with Session(program) as session:
        scripts = {}
        for seed in SEEDS:
            slot = session.open()
            session.reset(slot, seed)
            text = session.solution(slot)
            assert text
            lines = [line for line in text.splitlines() if line.strip()]
            scripts[seed] = lines if program.setting == "tool_use" else [box(line) for line in lines]
        ends = play_together(session, scripts, program.manifest.max_turns or 0)
    assert {seed for seed, (terminated, total) in ends.items() if not is_win(terminated, total)} == set()
    assert all(total <= 1 + 1e-6 for _, total in ends.values())


@pytest.mark.parametrize("program", GAMES, ids=names(GAMES))
def test_a_random_player_rarely_wins(program: Program) -> None:
    commands = [box(command) for command in expand(program.manifest.commands, 4096)]
    rng = np.random.default_rng(0)
    turns = program.manifest.max_turns or 0
    scripts = {seed: [commands[i] for i in rng.integers(len(commands), size=turns)] for seed in range(100, 140)}
    with Session(program) as session:
        ends = play_together(session, scripts, turns)
    assert sum(is_win(*end) for end in ends.values()) / len(ends) < 0.15
    assert all(-1e-6 <= total <= 1 + 1e-6 for _, total in ends.values())


def test_no_two_programs_share_a_skeleton() -> None:
    alike = {
        (a.name, b.name): round(similarity(a.source, b.source), 2)
        for a, b in itertools.combinations(PROGRAMS, 2)
        if similarity(a.source, b.source) >= 0.5
    }
    assert alike == {}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=names(PROGRAMS))
def test_every_bundled_program_passes_its_own_check(program: Program) -> None:
    verdict = validate(program)
    assert verdict.failures == ()
