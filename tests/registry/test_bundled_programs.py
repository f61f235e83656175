"""What is promised about every bundled program: balance, solvability, difficulty, variety, sound manifests."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from spade_gym.envs.scripts import play_scripts, random_scripts, solution_scripts
from spade_gym.pool import registry
from spade_gym.programs.commands import expand
from spade_gym.programs.program import Program
from spade_gym.programs.similarity import similarity
from spade_gym.sandbox.session import Session
from spade_gym.types import GAME_SKILLS, TOOL_SKILLS
from spade_gym.validation.validate import validate

PROGRAMS = sorted(registry(), key=lambda program: program.name)
GAMES = [program for program in PROGRAMS if program.setting != "tool_use"]


def names(programs: list[Program]) -> list[str]:
    return [program.name for program in programs]


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
        played = play_scripts(session, solution_scripts(session, range(20)))
    assert {seed: play for seed, play in played.items() if not play.won} == {}
    assert all(play.total <= 1 + 1e-6 for play in played.values())


@pytest.mark.parametrize("program", GAMES, ids=names(GAMES))
def test_a_random_player_rarely_wins(program: Program) -> None:
    commands = expand(program.manifest.commands, 4096)
    turns = program.manifest.max_turns or 0
    scripts = random_scripts(commands, range(100, 140), turns=turns, rng=np.random.default_rng(0))
    with Session(program) as session:
        played = play_scripts(session, scripts)
    assert all(play.fault == "" for play in played.values())
    assert sum(play.won for play in played.values()) / len(played) < 0.15
    assert all(-1e-6 <= play.total <= 1 + 1e-6 for play in played.values())


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
