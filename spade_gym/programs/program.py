"""A Program: the source text of an environment, its digest, and what is known about it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w

from spade_gym.errors import ManifestError
from spade_gym.types import SETTINGS, Setting

RewardRule = Literal["sum", "last"]

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
        max_turns: The program's own turn limit; ``None`` when it is only known to the running program.
        hint: Privileged advice, appended to the first observation on request; ``""`` when there is none.
        commands: Templates of legal actions (see ``spade_gym.programs.commands``).
        reward: How a return is made from rewards: their clipped ``sum``, or the ``last`` (imported pools).
        kwargs: Keyword arguments of the constructor.
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
        """Refuse what would later break a file name, an id or a table."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ManifestError(f"name must be a word of letters, digits and _ (at most 64), got {self.name!r}")
        if self.setting not in SETTINGS:
            raise ManifestError(f"setting must be one of {', '.join(SETTINGS)}, got {self.setting!r}")
        if not isinstance(self.class_name, str) or not self.class_name.isidentifier():
            raise ManifestError(f"class_name must be a Python identifier, got {self.class_name!r}")
        if self.reward not in get_args(RewardRule):
            raise ManifestError(f"reward must be 'sum' or 'last', got {self.reward!r}")
        turns = self.max_turns
        if turns is not None and (isinstance(turns, bool) or not isinstance(turns, int) or turns < 1):
            raise ManifestError(f"max_turns must be a positive integer or absent, got {turns!r}")
        for key in ("skill", "difficulty", "description", "hint"):
            if not isinstance(getattr(self, key), str):
                raise ManifestError(f"{key} must be text, got {getattr(self, key)!r}")
        for key in ("commands", "repairs", "adapters"):
            value = getattr(self, key)
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise ManifestError(f"{key} must be a list of texts, got {value!r}")
            object.__setattr__(self, key, tuple(value))
        for key in ("kwargs", "origin"):
            if not isinstance(getattr(self, key), dict):
                raise ManifestError(f"{key} must be a table, got {getattr(self, key)!r}")

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
        except tomllib.TOMLDecodeError as error:
            raise ManifestError(f"{where} is not valid TOML: {error}") from error
        digest = table.pop("digest", "")
        known = [item.name for item in fields(cls)]
        for key in table:
            if key not in known:
                raise ManifestError(f"{where}: unknown field {key!r}; the fields are digest, {', '.join(known)}")
        for key in ("name", "setting", "class_name"):
            if key not in table:
                raise ManifestError(f"{where}: the field {key!r} is missing")
        try:
            return cls(**table), str(digest)
        except (ManifestError, TypeError) as error:
            raise ManifestError(f"{where}: {error}") from error

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
    def read(cls, folder: Path) -> Program:
        """Read ``program.py`` and ``manifest.toml`` from a folder.

        Raises:
            ManifestError: A file is missing, unreadable or malformed, or the digest does not match.
        """
        try:
            source = (folder / "program.py").read_bytes().decode("utf-8")
            text = (folder / "manifest.toml").read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ManifestError(f"{folder} holds no readable program.py and manifest.toml: {error}") from error
        manifest, digest = Manifest.from_toml(text, where=str(folder / "manifest.toml"))
        if not digest:
            raise ManifestError(f"{folder / 'manifest.toml'}: the field 'digest' is missing")
        return cls(source=source, manifest=manifest, digest=digest)
