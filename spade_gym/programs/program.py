"""A Program: the source text of an environment, its digest, and what is known about it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w

from spade_gym.errors import ManifestError, PoolError
from spade_gym.plain_file import read_text, shown
from spade_gym.programs import manifest_values as values
from spade_gym.types import SETTINGS, Setting

RewardRule = Literal["sum", "last"]

#: Largest source and manifest that are read from a folder or file, in bytes.
MAX_SOURCE_BYTES = 1 << 20
MAX_MANIFEST_BYTES = 1 << 18

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def digest_of(source: str) -> str:
    """Return the sha256 of a program's source as 64 hexadecimal digits.

    Lone surrogates cannot stand in UTF-8 text; they are refused earlier, by ``Program``.
    """
    return hashlib.sha256(source.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is known about a program beside its source; stored as TOML next to it.

    Attributes:
        name: A CamelCase word; ``spade/<name>-v0`` is the Gymnasium id of a bundled program.
        setting: ``single_turn``, ``multi_turn`` or ``tool_use``.
        class_name: The environment class inside the source.
        skill: The skill it was asked to test, or ``""``.
        difficulty: ``easy``, ``medium``, ``hard`` or ``""``.
        description: One sentence for lists.
        max_turns: The program's own turn limit, from 1 to 1,000,000; ``None`` when only the running program knows.
        hint: Privileged advice, appended to the first observation on request; ``""`` when there is none.
        commands: Templates of legal actions (see ``spade_gym.programs.commands``).
        reward: How a return is made from rewards: their clipped ``sum``, or the ``last`` (imported pools).
        kwargs: Keyword arguments of the constructor: plain data, bounded (see ``programs.manifest_values``).
        repairs: Names of the repairs that the source went through.
        adapters: Names of the adapters under which it is run.
        origin: Where it came from (``kind``, ``designer``, ``document``, ``licence``, …); text values.
    """

    name: str
    setting: Setting
    class_name: str
    skill: str = ""
    difficulty: str = ""
    description: str = ""
    max_turns: int | None = None
    hint: str = ""
    commands: tuple[str, ...] = ()
    reward: RewardRule = "sum"
    kwargs: dict[str, Any] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    origin: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would later break a file name, an id, a table or a program's worker."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ManifestError(f"name must be a word of letters, digits and _ (at most 64), got {shown(self.name)}")
        if self.setting not in SETTINGS:
            raise ManifestError(f"setting must be one of {', '.join(SETTINGS)}, got {shown(self.setting)}")
        values.check_text("class_name", self.class_name)
        if not self.class_name.isidentifier():
            raise ManifestError(f"class_name must be a Python identifier, got {shown(self.class_name)}")
        if self.reward not in get_args(RewardRule):
            raise ManifestError(f"reward must be 'sum' or 'last', got {shown(self.reward)}")
        values.check_turns(self.max_turns)
        for key in ("skill", "difficulty", "description"):
            values.check_text(key, getattr(self, key))
        values.check_text("hint", self.hint, limit=values.MAX_HINT)
        for key in ("commands", "repairs", "adapters"):
            object.__setattr__(self, key, values.check_texts(key, getattr(self, key)))
        values.check_kwargs(self.kwargs)
        values.check_origin(self.origin)

    @classmethod
    def from_toml(cls, text: str, *, where: str = "manifest.toml") -> tuple[Manifest, str]:
        """Read a manifest; return it with the digest that it states.

        Args:
            text: TOML.
            where: What to call the text in errors.

        Raises:
            ManifestError: The TOML is malformed, or a field is missing, unknown or ill-typed.
        """
        try:
            table = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # malformed, or numbers and nesting without end
            raise ManifestError(f"{where} is not valid TOML: {error}") from error
        digest = table.pop("digest", "")
        known = [item.name for item in fields(cls)]
        for key in table:
            if key not in known:
                raise ManifestError(f"{where}: unknown field {shown(key)}; the fields are digest, {', '.join(known)}")
        for key in ("name", "setting", "class_name"):
            if key not in table:
                raise ManifestError(f"{where}: the field {key!r} is missing")
        try:
            return cls(**table), str(digest)
        except (ManifestError, TypeError) as error:
            raise ManifestError(f"{where}: {error}") from error

    @classmethod
    def read(cls, folder: Path | str, *, follow_links: bool = False) -> tuple[Manifest, str]:
        """Read ``manifest.toml`` from a folder; return it with the digest that it states.

        Args:
            folder: The folder.
            follow_links: Follow symbolic links in it; see :meth:`Program.read`.

        Raises:
            ManifestError: It is missing, a link, no regular file, too large or malformed, or states no digest.
        """
        path = Path(folder) / "manifest.toml"
        try:
            text = read_text(path, max_bytes=MAX_MANIFEST_BYTES, follow=follow_links)
        except PoolError as error:
            raise ManifestError(str(error)) from error
        manifest, digest = cls.from_toml(text, where=repr(str(path)))
        if len(digest) != 64:
            raise ManifestError(
                f"{str(path)!r}: the field 'digest' must be the sha256 of program.py, got {shown(digest)}"
            )
        return manifest, digest

    def to_toml(self, digest: str) -> str:
        """Write the manifest as TOML, together with the digest of the source it belongs to."""
        table: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None or (value in ("", (), {}) and item.name not in ("repairs", "adapters")):
                continue
            table[item.name] = list(value) if isinstance(value, tuple) else value
        table["digest"] = digest
        try:
            return tomli_w.dumps(table)
        except TypeError as error:
            raise ManifestError(f"manifest of {self.name}: TOML cannot hold one of its values: {error}") from error


@dataclass(frozen=True, slots=True)
class Program:
    """The source of an environment with its manifest; equal programs have equal digests.

    Attributes:
        source: Python text, newline-normalised, without lone surrogates.
        manifest: What is known about it.
        digest: sha256 of the source, 64 hexadecimal digits.
    """

    source: str
    manifest: Manifest
    digest: str = ""

    def __post_init__(self) -> None:
        """Compute the digest, or refuse one that does not belong to the source."""
        if not isinstance(self.source, str) or not isinstance(self.manifest, Manifest):
            raise TypeError(
                "a Program is made of a source (text) and a Manifest, "
                f"got {type(self.source).__name__} and {type(self.manifest).__name__}"
            )
        try:
            digest = digest_of(self.source)
        except UnicodeEncodeError as error:
            raise ManifestError(f"program {self.manifest.name}: the source holds lone surrogates: {error}") from error
        if self.digest and self.digest != digest:
            raise ManifestError(
                f"program {self.manifest.name}: the source has digest {digest}, not {self.digest}; it was edited "
                "after its manifest was written. Check it again and write a new manifest (spade-gym pool add)."
            )
        object.__setattr__(self, "digest", digest)

    @property
    def name(self) -> str:
        """The manifest's name."""
        return self.manifest.name

    @property
    def setting(self) -> Setting:
        """The manifest's setting."""
        return self.manifest.setting

    def with_manifest(self, **changes: Any) -> Program:
        """Return the same source under a changed manifest."""
        return replace(self, manifest=replace(self.manifest, **changes))

    @classmethod
    def read(cls, folder: Path | str, *, follow_links: bool = False) -> Program:
        """Read ``program.py`` and ``manifest.toml`` from a folder.

        Only regular files of bounded size are read, and none outside the folder.

        Args:
            folder: The folder.
            follow_links: Follow symbolic links in it (for installed packages, which some installers link).

        Raises:
            ManifestError: A file is missing, a link, no regular file, too large or malformed, or the digest does not
                match.
        """
        manifest, digest = Manifest.read(folder, follow_links=follow_links)
        try:
            source = read_text(Path(folder) / "program.py", max_bytes=MAX_SOURCE_BYTES, follow=follow_links)
        except PoolError as error:
            raise ManifestError(str(error)) from error
        try:
            return cls(source=source, manifest=manifest, digest=digest)
        except ManifestError as error:
            raise ManifestError(f"{str(folder)!r}: {error}") from error
