"""Run by ``test_attacks.py`` as an ordinary user: attack one level and print what came of it, as JSON."""

import json
import os
import sys
import types


def main(package: str, level: str) -> None:
    # Entered without its __init__, which would import Gymnasium; this user may not be able to read that.
    module = types.ModuleType("spade_gym")
    module.__path__ = [package]
    sys.modules["spade_gym"] = module
    from spade_gym.sandbox import probes_outside as outside
    from spade_gym.sandbox.base import Isolation
    from spade_gym.sandbox.doctor import obstacle
    from spade_gym.sandbox.probe_fixture import Fixture

    chosen = Isolation[level]
    why_not = obstacle(chosen)
    rows = []
    if not why_not:
        with Fixture(chosen) as fixture:
            for probe in (*outside.FILES, *outside.PROCESSES, *outside.NETWORK, *outside.KERNEL):
                expected = probe.expected(chosen, privileged=False)
                if expected != "unsafe":
                    attempt = fixture.attempt(probe)
                    rows.append([probe.name, expected, attempt.outcome, f"{attempt.reached} {attempt.detail}"])
    print(json.dumps({"uid": os.getuid(), "obstacle": why_not, "rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
