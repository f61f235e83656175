"""A designer that replays replies: those of a folder, those that ship with the package, or those of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from spade_gym.designer.deck import Deck, Label
from spade_gym.designer.request import DesignerError, DesignReply, DesignRequest
from spade_gym.errors import ManifestError, ReplyError
from spade_gym.plain_file import as_path, read_text, shown
from spade_gym.programs.manifest_values import MAX_HINT, MAX_TEXT, check_text
from spade_gym.programs.reply import program_from_reply
from spade_gym.types import SETTINGS, Setting

#: Largest index and reply that are read, in bytes.
MAX_INDEX_BYTES, MAX_REPLY_BYTES = 16 << 20, 4 << 20
_INDEX = "index.jsonl"
_KNOWN_BY_TEXT = ("skill", "difficulty", "document", "key", "hint")


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A reply that was written earlier.

    Attributes:
        file: Names it; unique among those of a designer.
        text: The raw reply.
        setting: Of its program; ``None`` where no program can be read, so that it may answer any request.
        skill: That it was asked for, or "".
        difficulty: That it was asked for, or "".
        document: Id of the document that it is grounded in, or "".
        key: Of the request that it answered, or "": the same request gets the same reply again.
        hint: Privileged advice for its program, or "".
    """

    file: str
    text: str
    setting: Setting | None = None
    skill: str = ""
    difficulty: str = ""
    document: str = ""
    key: str = ""
    hint: str = ""


class RecordedDesigner:
    """Replays replies, each at most once until all were used; see :class:`~spade_gym.designer.deck.Deck`.

    Args:
        replies: At least one, with distinct ``file`` names.
        name: For reports and manifests.

    Raises:
        DesignerError: There are no replies, or two of one name.
    """

    def __init__(self, replies: Iterable[RecordedReply], *, name: str = "recorded") -> None:
        found = list(replies)
        self.name = name
        self._replies = {reply.file: reply for reply in found}
        self._by_key = {reply.key: reply.file for reply in found if reply.key}
        if not found:
            raise DesignerError("a recorded designer needs at least one reply, got none")
        if len(self._replies) < len(found):
            raise DesignerError("two recorded replies have the same file name; give each its own")
        self._deck = Deck(Label(reply.file, reply.setting, reply.skill) for reply in found)

    def write(self, requests: Sequence[DesignRequest]) -> list[DesignReply]:
        """Answer each request with a reply that fits it; one that asks for a repair gets another reply."""
        return [self._answer(request) for request in requests]

    def seen(self, reply: DesignReply) -> None:
        """Count a reply that an earlier part of the run used."""
        self._deck.use(dict(reply.origin).get("file", ""))

    def _answer(self, request: DesignRequest) -> DesignReply:
        file: str | None = self._by_key.get(request.key)
        if file is not None:
            self._deck.use(file)
        else:
            file = self._deck.draw(request)
        if file is None:
            return DesignReply(request, "", error=f"no recorded reply for the setting {request.setting}")
        reply = self._replies[file]
        return DesignReply(request, reply.text, origin=_origin(reply, self.name), hint=reply.hint)


def _origin(reply: RecordedReply, designer: str) -> tuple[tuple[str, str], ...]:
    facts = {
        "kind": "recorded",
        "designer": designer,
        "file": reply.file,
        "setting": reply.setting or "",
        "skill": reply.skill,
        "difficulty": reply.difficulty,
        "document": reply.document,
    }
    return tuple((key, value) for key, value in facts.items() if value)


def shipped_replies() -> list[RecordedReply]:
    """Return the replies that ship with the package: sound programs of all settings, and a few flawed ones.

    Raises:
        DesignerError: The package is not installed as files.
    """
    root = resources.files("spade_gym.replies")
    if not isinstance(root, Path):
        raise DesignerError("the package 'spade_gym.replies' is not installed as files on disk (a zip archive?)")
    return read_replies(root, follow_links=True)


def read_replies(folder: Path | str, *, follow_links: bool = False) -> list[RecordedReply]:
    """Read every ``.md`` and ``.txt`` file of a folder, in the order of their names.

    An ``index.jsonl`` may tell more: a JSON object a line with ``file`` and any of ``setting``, ``skill``,
    ``difficulty``, ``document``, ``key`` and ``hint`` (other fields do not matter). A file that it does not tell the
    setting of has the one that its program seems to have.

    Args:
        folder: The folder.
        follow_links: Follow symbolic links in it (for installed packages, which some installers link).

    Raises:
        DesignerError: There is no such folder, no reply in it, or the index is malformed.
        ManifestError: A file name is no text that a manifest can hold.
        PoolError: A file is a link, no regular file, too large, or no UTF-8 text.
    """
    path = as_path("the folder of replies", folder)
    try:
        names = sorted(item.name for item in path.iterdir() if item.suffix in (".md", ".txt"))
    except OSError as error:
        raise DesignerError(
            f"there is no readable folder of replies at {shown(str(path), limit=300)}: {error}"
        ) from error
    for name in names:
        check_text(f"the name of a file in {str(path)!r}", name)
    index = {row["file"]: row for row in _index(path, follow_links=follow_links)}
    missing = sorted(set(index) - set(names))
    if missing:
        raise DesignerError(f"{str(path / _INDEX)!r} names {shown(missing[0])}, which is no .md or .txt file beside it")
    if not names:
        raise DesignerError(f"there is no reply in {str(path)!r}; files that end in .md or .txt are read")
    return [
        _reply(name, read_text(path / name, max_bytes=MAX_REPLY_BYTES, follow=follow_links), index.get(name, {}))
        for name in names
    ]


def _reply(name: str, text: str, row: Mapping[str, Any]) -> RecordedReply:
    facts = {key: row[key] for key in _KNOWN_BY_TEXT if key in row}
    return RecordedReply(name, text, row["setting"] if row.get("setting") else _setting_of(text), **facts)


def _setting_of(text: str) -> Setting | None:
    """Return the setting that a reply's program seems to have; ``None`` when no program can be read."""
    try:
        return program_from_reply(text).setting
    except ReplyError:
        return None


def _index(folder: Path, *, follow_links: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a folder's index; none when there is no index."""
    path = folder / _INDEX
    if not path.exists() and not path.is_symlink():
        return
    lines = read_text(path, max_bytes=MAX_INDEX_BYTES, follow=follow_links).splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _row(json.loads(line))
            except (ValueError, RecursionError, ManifestError) as error:
                raise DesignerError(f"{str(path)!r}, line {number}: {error}") from error


def _row(row: Any) -> dict[str, Any]:
    """Check one row of an index.

    Raises:
        ValueError: It is no object, lacks its file, or has no known setting.
        ManifestError: A field that is read is no text that a manifest can hold.
    """
    if not isinstance(row, dict):
        raise ValueError(f"a row must be a JSON object, got {shown(row)}")
    for key in ("file", "setting", *_KNOWN_BY_TEXT):
        check_text(key, row.get(key, ""), limit=MAX_HINT if key == "hint" else MAX_TEXT)
    if not row.get("file"):
        raise ValueError("the field 'file' is missing")
    if row.get("setting") and row["setting"] not in SETTINGS:
        raise ValueError(f"setting must be one of {', '.join(SETTINGS)}, got {shown(row['setting'])}")
    return row
