"""``spade-gym try``: one reply all the way, from a model's raw text to an isolated environment in play."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from spade_gym.cli.judge import read_reply, written
from spade_gym.cli.terminal import bold, visible

if TYPE_CHECKING:
    from spade_gym.programs.program import Program

_NUM_ENVS = 64
_NUM_EPISODES = 100
_RANDOM_TURNS = 20
_SPEED_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("reply", nargs="?", type=Path, help="a file with a model's raw reply (default: a recorded one)")
    parser.add_argument("--pool", type=Path, default=Path("pool"), metavar="DIR", help="where to keep it (./pool)")
    parser.add_argument("--isolation", metavar="LEVEL", help="L3, L2, L1 or L0; default: the strongest that works here")


def run(args: argparse.Namespace) -> int:
    """Show every step; 0 when the program was accepted and played, 1 when it was rejected."""
    from spade_gym.pool import Pool
    from spade_gym.sandbox.base import Isolation
    from spade_gym.sandbox.zygotes import resolve_level
    from spade_gym.validation.validate import validate_reply

    level = resolve_level(Isolation.parse(args.isolation))
    name, text = _read(args.reply)
    print(bold("1. A model's reply becomes a program, if it passes the checks"))
    verdict = validate_reply(text, name=name, origin={"kind": "reply", "file": written(name)}, isolation=level)
    print(f"   {name}: {len(text)} characters, class {verdict.class_name or '(none)'}")
    print(f"   repairs: {', '.join(verdict.repairs) or 'none'}; adapters: {', '.join(verdict.adapters) or 'none'}")
    for finding in verdict.failures:
        print(f"   rejected by {finding.check}: {visible(finding.message)}")
    if not verdict.accepted or verdict.program is None:
        print("   (spade-gym check shows the evidence)")
        return 1
    print(f"   accepted in {verdict.seconds:.1f} s, digest {verdict.digest[:12]}")
    folder = Pool(args.pool).add(verdict.program)
    print(f"   kept in {folder}")
    print(bold(f"2. The program plays as a Gymnasium environment, isolated at level {level.name}"))
    _show_first_turn(verdict.program, level.name)
    print(bold(f"3. {_NUM_ENVS} instances in one batched environment"))
    _show_players(verdict.program, level.name)
    print(bold("Next"))
    for line in _suggestions(verdict.program, args.pool, folder):
        print(f"   {_command_name()} {line}")
    return 0


def _suggestions(program: Program, pool: Path, folder: Path) -> list[str]:
    lines = ["list", "play BeaconWalk", f"play {program.name} --pool {pool}"]
    if program.manifest.commands or _announces_a_menu(program):
        extra = "pip install 'spade-gym[sb3]', in a clone pip install '.[sb3]'"
        lines.append(f"train sb3 --program {folder}   (needs the extra sb3: {extra})")
    return lines


def _announces_a_menu(program: Program) -> bool:
    from spade_gym.programs.commands import discover
    from spade_gym.sandbox.session import Session

    if program.setting == "tool_use":
        return False
    with Session(program) as session:
        announced = discover(session.reset(session.open(), 0).observation)
    return announced.finite and bool(announced.commands)


def _command_name() -> str:
    """How to call this command again: as it was called, unless it is on the PATH."""
    return "spade-gym" if shutil.which("spade-gym") else sys.argv[0]


def _read(path: Path | None) -> tuple[str, str]:
    if path is None:
        return "ferry.md", (resources.files("spade_gym.replies") / "ferry.md").read_text("utf-8")
    return path.name, read_reply(path)


def _show_first_turn(program: Program, level: str) -> None:
    from spade_gym.cli.terminal import wrap
    from spade_gym.envs.program_env import ProgramEnv

    env = ProgramEnv(program, isolation=level)
    observation, _ = env.reset(seed=0)
    print(wrap(observation, columns=78, indent="   | "))
    env.close()


def _show_players(program: Program, level: str) -> None:
    import numpy as np

    from spade_gym.envs.episode import commands_of
    from spade_gym.envs.scripts import play_scripts, random_scripts, solution_scripts
    from spade_gym.programs.boxed import box
    from spade_gym.sandbox.session import Session

    seeds = range(_NUM_EPISODES)
    with Session(program, isolation=level) as session:
        slot = session.open()
        commands = commands_of(program, session.reset(slot, 0).observation)
        players = {}
        if session.report.has_solution:
            players["its own solution"] = solution_scripts(session, seeds)
        if commands:
            turns = session.report.max_turns or _RANDOM_TURNS
            rng = np.random.default_rng(0)
            players["a random player"] = random_scripts(commands, seeds, turns=turns, rng=rng)
        for player, scripts in players.items():
            wins = sum(play.won for play in play_scripts(session, scripts).values())
            print(f"   {player} wins {wins} of {_NUM_EPISODES} instances")
    _show_speed(program, level, [*map(box, commands)] or [""])


def _show_speed(program: Program, level: str, commands: list[str]) -> None:
    from spade_gym.envs.program_vector_env import ProgramVectorEnv

    vector = ProgramVectorEnv(_NUM_ENVS, program=program, isolation=level)
    vector.reset(seed=0)
    actions = [commands[index % len(commands)] for index in range(_NUM_ENVS)]
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < _SPEED_SECONDS:
        vector.step(actions)
        steps += _NUM_ENVS
    print(f"   {steps / (time.perf_counter() - start):,.0f} steps a second on this machine, one worker process")
    vector.close()
