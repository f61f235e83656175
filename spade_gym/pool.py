"""Where accepted programs are kept: a folder of entries, addressed by the digest of their source.

``<pool>/<entry>/{program.py, manifest.toml}`` is also the form of the bundled registry. :meth:`Pool.add` names
an entry by its whole digest (64 hexadecimal digits); people may give entries friendlier folder names: a reader
takes any name and checks the digest that the manifest states against the source. Names that start with ``.``
or ``_`` and plain files are no entries.

Two rules:

* The *source* is the identity. Adding a source that is already there changes nothing, even when the manifest
  differs: the first manifest stays, until ``add(program, replace=True)`` replaces it in one step.
* A *name* may belong to several digests; asking for such a name is refused, with the digests to choose from.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from spade_gym import plugins, pool_entry
from spade_gym.errors import PoolError
from spade_gym.plain_file import as_path, shown
from spade_gym.programs.program import Program

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"[0-9a-f]{8,64}")


class Damage(NamedTuple):
    """What is wrong with one entry of a pool.

    Attributes:
        entry: The entry's folder name.
        problem: What was found, and what to do.
    """

    entry: str
    problem: str


class Survey(NamedTuple):
    """What a pool holds.

    Attributes:
        programs: The programs of the sound entries, each source once.
        damages: What is wrong with the other entries.
    """

    programs: tuple[Program, ...]
    damages: tuple[Damage, ...]


class Pool:
    """A folder of programs that many processes may read and write at once.

    Entries appear by one atomic rename after their files are durable: a reader sees a whole entry or none,
    and a writer that is killed leaves only a temporary folder, which a later writer removes.
    """

    def __init__(self, path: Path | str, *, installed: bool = False, title: str = "") -> None:
        """Name a pool; nothing is read or created yet.

        Args:
            path: The folder. ``add`` creates it.
            installed: The folder belongs to an installed package: it is never written, and symbolic links
                (with which some installers build packages) are followed.
            title: What to call it in messages; by default its path.

        Raises:
            TypeError: The path is no text or path.
            PoolError: The path is empty.
        """
        self.path = as_path("the path of a pool", path)
        self.installed = installed
        self.title = title or f"the pool {str(self.path)!r}"
        self._tidied = False

    def __repr__(self) -> str:
        return f"Pool({str(self.path)!r})"

    def add(self, program: Program, *, replace: bool = False) -> Path:
        """Keep a program and return its folder; a source that is already there is left as it is.

        Args:
            program: The program. It is not checked here (see ``spade_gym.validation``).
            replace: Replace the manifest when the same source is already there with another one.

        Raises:
            TypeError: It is no ``Program``.
            PoolError: The pool cannot be written, the program is too large, or its entry is damaged.
            ManifestError: TOML cannot hold a value of the manifest.
        """
        if not isinstance(program, Program):
            raise TypeError(
                f"a pool keeps a spade_gym.Program, got {type(program).__name__}: {shown(program)}; "
                "Program.read(folder) and validate_reply(text, name=...).program give one"
            )
        if self.installed:
            raise PoolError(f"{self.title}: an installed package is not written to; use a folder of your own")
        source, manifest = pool_entry.encode_entry(program)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._tidy()
            existing = self._folder_of(program.digest)
            if existing is None:
                existing = self._publish(program.digest, {"program.py": source, "manifest.toml": manifest})
            kept = pool_entry.read_entry(existing)
            if replace and kept.manifest != program.manifest:
                self._replace_manifest(existing, manifest)
        except OSError as error:
            raise PoolError(f"{self.title} cannot be written: {error}") from error
        return existing

    def get(self, key: str) -> Program:
        """Return the program of a name, or of a digest or its first digits (at least 8).

        Raises:
            TypeError: The key is no text.
            PoolError: Nothing or more than one program answers to the key, or its entry is damaged.
        """
        if not isinstance(key, str):
            raise TypeError(f"a program of a pool is named by text, got {type(key).__name__}: {shown(key)}")
        whole = self.path / key.lower() if _DIGEST.fullmatch(key.lower()) else None
        if whole is not None and os.path.lexists(whole):
            return self._read(whole)
        found: dict[str, Path] = {}
        names: list[str] = []
        damages: list[Damage] = []
        for folder in self._folders():
            try:
                manifest, digest = pool_entry.read_manifest(folder, follow=self.installed)
            except PoolError as error:
                damages.append(Damage(folder.name, str(error)))
                continue
            names.append(manifest.name)
            if manifest.name == key or (_PREFIX.fullmatch(key.lower()) and digest.startswith(key.lower())):
                found.setdefault(digest, folder)
        if len(found) == 1:
            return self._read(next(iter(found.values())))
        if found:
            digests = ", ".join(sorted(found))
            raise PoolError(f"{key!r} names {len(found)} programs of {self.title}; give one digest: {digests}")
        raise PoolError(self._unknown(key, names, damages))

    def names(self) -> tuple[str, ...]:
        """Return the distinct names in the pool, sorted.

        Raises:
            PoolError: A manifest is damaged.
        """
        return tuple(sorted({self._manifest_name(folder) for folder in self._folders()}))

    def __iter__(self) -> Iterator[Program]:
        """Yield every program once, in the order of the folder names.

        Raises:
            PoolError: An entry is damaged; :meth:`verify` lists all that are.
        """
        seen: set[str] = set()
        for folder in self._folders():
            program = self._read(folder)
            if program.digest not in seen:
                seen.add(program.digest)
                yield program

    def __len__(self) -> int:
        """Return the number of entries, damaged ones included."""
        return len(self._folders())

    def verify(self) -> tuple[Damage, ...]:
        """Read every entry and return what is wrong, nothing when all is well.

        Raises:
            PoolError: There is no such folder.
        """
        return self.survey().damages

    def survey(self) -> Survey:
        """Read every entry and return the sound programs and what is wrong with the others.

        Raises:
            PoolError: There is no such folder.
        """
        programs: list[Program] = []
        damages: list[Damage] = []
        seen: dict[str, str] = {}
        for folder in self._folders():
            try:
                program = self._read(folder)
            except PoolError as error:
                damages.append(Damage(folder.name, str(error)))
                continue
            first = seen.setdefault(program.digest, folder.name)
            if first == folder.name:
                programs.append(program)
            else:
                damages.append(Damage(folder.name, f"holds the same source as {first!r}; remove one of the two"))
        return Survey(tuple(programs), tuple(damages))

    def _folders(self) -> list[Path]:
        """Return the entries' folders, sorted; linked folders too, to be refused by name on reading."""
        try:
            names = [name for name in os.listdir(self.path) if name[0] not in "._"]
        except OSError as error:
            raise PoolError(f"there is no readable pool at {shown(str(self.path), limit=300)}: {error}") from error
        return [self.path / name for name in sorted(names) if os.path.isdir(self.path / name)]

    def _read(self, folder: Path) -> Program:
        program = pool_entry.read_entry(folder, follow=self.installed)
        if _DIGEST.fullmatch(folder.name) and folder.name != program.digest:
            raise PoolError(
                f"{str(folder)!r} is named by another digest than its source's, {program.digest}; "
                "rename the folder or fetch the entry again"
            )
        return program

    def _manifest_name(self, folder: Path) -> str:
        manifest, _ = pool_entry.read_manifest(folder, follow=self.installed)
        return manifest.name

    def _folder_of(self, digest: str) -> Path | None:
        """Return the folder that holds a digest, be it named by it or by a person."""
        if os.path.lexists(self.path / digest):
            return self.path / digest
        for name in os.listdir(self.path):
            if name[0] in "._" or _DIGEST.fullmatch(name) or not os.path.isdir(self.path / name):
                continue
            try:
                _, stated = pool_entry.read_manifest(self.path / name)
            except PoolError:  # a damaged neighbour is verify's business
                continue
            if stated == digest:
                return self.path / name
        return None

    def _publish(self, digest: str, files: dict[str, bytes]) -> Path:
        """Move a complete entry to its place; when another writer was faster, its entry stays."""
        target = self.path / digest
        temporary = pool_entry.write_temporary(self.path, files)
        try:
            os.rename(temporary, target)
        except OSError:
            if not os.path.lexists(target):
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        pool_entry.sync_folder(self.path)
        return target

    def _tidy(self) -> None:
        """Remove the leftovers of killed writers, once for each ``Pool``."""
        if not self._tidied:
            pool_entry.remove_old_temporaries(self.path)
            self._tidied = True

    def _replace_manifest(self, folder: Path, manifest: bytes) -> None:
        temporary = pool_entry.write_temporary(self.path, {"manifest.toml": manifest})
        try:
            os.replace(temporary / "manifest.toml", folder / "manifest.toml")
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        pool_entry.sync_folder(folder)

    def _unknown(self, key: str, names: list[str], damages: list[Damage]) -> str:
        near = difflib.get_close_matches(key, sorted(set(names)), n=3, cutoff=0.5)
        text = f"no program {shown(key)} among the {len(names)} of {self.title}; "
        text += "give a name or at least 8 digits of a digest"
        if near:
            text += f". Did you mean {' or '.join(near)}?"
        if damages:
            text += f". {len(damages)} damaged entries were passed over; run: spade-gym pool verify"
        return text


def registry() -> Pool:
    """Open the programs that ship with this package.

    Raises:
        PoolError: The package ``spade_registry`` is not installed as files.
    """
    return _package_pool("spade_registry", "the bundled programs")


def registries() -> dict[str, Pool]:
    """Open the bundled programs (``spade``) and those of installed third parties, by entry-point name.

    A third party declares the package that holds its entries in the group ``spade_gym.registries``.

    Raises:
        PluginError: A name is offered twice, or a package cannot be imported.
        PoolError: A package is not installed as files.
    """
    pools = {"spade": registry()}
    for plugin in plugins.available("registries"):
        if plugin.target == "spade_registry":
            continue
        if plugin.name in pools:
            raise plugins.PluginError(
                f"the registry {plugin.name!r} is offered twice, also by {plugin.distribution}; uninstall one of them"
            )
        module = plugins.load("registries", plugin.name)
        package = getattr(module, "__name__", str(module))
        pools[plugin.name] = _package_pool(package, f"the programs of {package} ({plugin.distribution})")
    return pools


def _package_pool(package: str, title: str) -> Pool:
    try:
        root = resources.files(package)
    except (ImportError, TypeError) as error:
        raise PoolError(f"the package {package!r} with bundled programs cannot be imported: {error}") from error
    if not isinstance(root, Path):
        raise PoolError(f"the package {package!r} is not installed as files on disk (a zip archive?); unpack it")
    return Pool(root, installed=True, title=title)
