"""``spade-gym train TRAINER --env ID``: trains an agent, and says how often it wins before and after."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from spade_gym import plugins
from spade_gym.cli.terminal import visible
from spade_gym.errors import SpadeError

#: Options that only some trainers know; they are passed on when they are given.
_OPTIONS = ("algo", "num_envs", "eval_episodes", "history", "keep_first", "num_features", "commands", "greedy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``spade-gym train``."""
    parser.epilog = "example: spade-gym train sb3 --env spade/BeaconWalk-v0 --steps 60000"
    parser.add_argument("trainer", help="sb3, or another installed trainer (entry points spade_gym.learners)")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--env", metavar="ID", help="a Gymnasium id, for example spade/BeaconWalk-v0")
    which.add_argument("--program", metavar="KEY", help="a program: bundled name, digest, file or folder")
    parser.add_argument("--steps", type=_positive, default=60_000, metavar="N", help="environment steps (60000)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of the run (0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the results (runs/TRAINER/NAME-seedN)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON; messages go to standard error")
    more = parser.add_argument_group("options of the trainer sb3")
    more.add_argument("--algo", help="ppo (default), dqn, or maskable_ppo (needs sb3-contrib)")
    more.add_argument("--num-envs", type=_positive, metavar="N", help="instances played at once (64)")
    more.add_argument("--eval-episodes", type=_positive, metavar="N", help="unseen instances for evaluation (100)")
    more.add_argument("--history", type=_positive, metavar="N", help="observations that the agent sees (1)")
    more.add_argument("--keep-first", action="store_true", default=None, help="it also sees the first observation")
    more.add_argument("--num-features", type=_positive, metavar="N", help="length of an observation's vector (512)")
    more.add_argument(
        "--command",
        action="append",
        dest="commands",
        metavar="TEXT",
        help="a command or template, 'open {1..3}', in place of the program's own; may be repeated",
    )
    more.add_argument(
        "--sampled", action="store_false", dest="greedy", default=None, help="evaluate drawn actions, not the best ones"
    )


def run(args: argparse.Namespace) -> int:
    """Train, print the result, and return 0."""
    trainer = plugins.load("spade_gym.learners", args.trainer)
    options = {key: getattr(args, key) for key in _OPTIONS if getattr(args, key) is not None}
    env_id = args.env
    if env_id is not None and os.path.lexists(env_id):
        raise SpadeError(
            f"--env takes a Gymnasium id such as spade/BeaconWalk-v0, and {env_id!r} is a file or folder; "
            f"give it as --program {shlex.quote(env_id)}"
        )
    if args.program is not None:
        env_id = "spade/Program-v0"
        options["env_kwargs"] = {"program": args.program}
    _check_options(args.trainer, trainer, options)
    out = args.out if args.out is not None else _default_folder(args)
    stream = sys.stderr if args.json else sys.stdout

    def say(line: str) -> None:
        print(visible(line), file=stream, flush=True)

    report = trainer(env_id, steps=args.steps, seed=args.seed, out=out, notify=say, **options)
    if args.json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        print(f"{report.steps_per_second:,.0f} steps a second")
        print(f"model: {report.model}")
        print(f"logs:  tensorboard --logdir {report.logs}")
    return 0


def _check_options(name: str, trainer: Any, options: dict[str, Any]) -> None:
    """Refuse options that a trainer does not take, by its signature."""
    parameters = inspect.signature(trainer).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = sorted(set(options) - set(parameters))
    if unknown:
        raise SpadeError(f"the trainer {name} does not take {', '.join(unknown)}; it takes {', '.join(parameters)}")


def _default_folder(args: argparse.Namespace) -> Path:
    key = args.env or args.program
    name: str = Path(key).stem if args.program is not None else key.rpartition(":")[2].rpartition("/")[2]
    return Path("runs", str(args.trainer), f"{name}-seed{args.seed}")


def _positive(text: str) -> int:
    return _whole(text, 1)


def _seed(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least} on, got {text!r}")
    return number
