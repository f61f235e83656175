"""The whole way: a model's raw reply → checks → an isolated environment → a trained Stable-Baselines3 agent.

Needs the extra ``sb3``. Give it a file with another reply, or run it as it is on a recorded one (about 20 s):

    python examples/reply_to_agent.py [reply.md]
"""

from __future__ import annotations

import sys
import tempfile
from importlib import resources
from pathlib import Path

import spade_gym
from spade_gym.validation.validate import validate_reply
from spade_trainers.sb3.train import train


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else resources.files("spade_gym.replies") / "ferry.md"
    verdict = validate_reply(path.read_text("utf-8"), name=path.name)
    print(f"{path.name}: {'accepted' if verdict.accepted else 'rejected'}; repairs: {', '.join(verdict.repairs)}")
    if verdict.program is None or not verdict.accepted:
        print("\n".join(f"  {finding.check}: {finding.message}" for finding in verdict.failures))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        entry = spade_gym.Pool(Path(folder) / "pool").add(verdict.program)
        report = train(
            "spade/Program-v0",
            env_kwargs={"program": str(entry)},
            steps=60_000,
            out=Path(folder) / "run",
            progress=False,
            notify=print,
        )
    print(f"unseen instances before: {report.before}\nunseen instances after:  {report.after}")
    return 0 if (report.after.rate or 0.0) > (report.before.rate or 0.0) else 1


if __name__ == "__main__":
    sys.exit(main())
