"""Is a text that does not compile here only waiting for the f-strings of Python 3.12?"""

from __future__ import annotations

import re

from spade_gym.programs.syntax import expression, fault_of

_OPENING = re.compile(r"""(?P<prefix>(?<!\w)(?:[rR][bBfF]?|[bBfF][rR]?|[uU])?)(?P<quote>\"\"\"|'''|"|')|\#[^\n]*""")
_MAX_DEPTH = 6


def needs_312(source: str) -> bool:
    """Whether the text compiles once each f-string is read by the rules of Python 3.12 (PEP 701).

    Those f-strings may reuse their own quotation mark and hold backslashes and comments inside braces. Always
    ``False`` for a text that compiles on this interpreter.
    """
    fault = fault_of(source)
    if fault is None or "unicode error" in fault.message:
        return False
    try:
        plain, fields = _without_fstrings(source, 0)
    except _Unreadable:
        return False
    return bool(fields) and fault_of(plain) is None and all(field and expression(f"({field})") for field in fields)


class _Unreadable(Exception):
    """The text cannot be read even by the rules of Python 3.12."""


def _without_fstrings(source: str, depth: int) -> tuple[str, list[str]]:
    """Replace f-strings by empty strings; also return the expressions that stood in them."""
    if depth > _MAX_DEPTH:
        raise _Unreadable
    parts: list[str] = []
    fields: list[str] = []
    position = 0
    while match := _OPENING.search(source, position):
        parts.append(source[position : match.start()])
        quote = match["quote"]
        if quote is None:
            position = match.end()
            continue
        if "f" in match["prefix"].lower():
            position = _read_fstring(source, match.end(), quote, fields, depth)
            parts.append('""')
        else:
            position = _end_of_string(source, match.end(), quote)
            parts.append(source[match.start() : position])
    parts.append(source[position:])
    return "".join(parts), fields


def _end_of_string(source: str, position: int, quote: str) -> int:
    """Return the index after a plain string literal."""
    pattern = re.compile(rf"(?:\\.|(?!{quote}).)*+{quote}", re.DOTALL)
    match = pattern.match(source, position)
    if match is None or (len(quote) == 1 and re.search(r"(?<!\\)\n", match[0])):
        raise _Unreadable
    return match.end()


def _read_fstring(source: str, position: int, quote: str, fields: list[str], depth: int) -> int:
    """Read an f-string from after its opening quote; collect its expressions; return the index after it."""
    while position < len(source):
        if source.startswith(quote, position):
            return position + len(quote)
        two = source[position : position + 2]
        if two in ("{{", "}}") or two[0] == "\\":
            position += 2
        elif two[0] == "{":
            end = _end_of_field(source, position + 1, depth)
            plain, inner = _without_fstrings(_expression_of(source[position + 1 : end]), depth + 1)
            fields += [plain, *inner]
            position = end + 1
        elif two[0] == "}" or (two[0] == "\n" and len(quote) == 1):
            raise _Unreadable
        else:
            position += 1
    raise _Unreadable


def _end_of_field(source: str, position: int, depth: int) -> int:
    """Return the index of the brace that closes a replacement field."""
    opened = 0
    while position < len(source):
        match = _OPENING.match(source, position)
        if match and match["quote"]:
            nested = "f" in match["prefix"].lower()
            if nested and depth >= _MAX_DEPTH:
                raise _Unreadable
            position = (
                _read_fstring(source, match.end(), match["quote"], [], depth + 1)
                if nested
                else _end_of_string(source, match.end(), match["quote"])
            )
            continue
        character = source[position]
        if character == "}" and not opened:
            return position
        opened += (character in "([{") - (character in ")]}")
        position += 1
    raise _Unreadable


def _expression_of(field: str) -> str:
    """Return the expression of a replacement field, without conversion, ``=`` and format."""
    opened, position = 0, 0
    while position < len(field):
        match = _OPENING.match(field, position)
        if match and match["quote"]:
            try:
                position = _end_of_string(field, match.end(), match["quote"])
            except _Unreadable:
                position = match.end()
            continue
        character = field[position]
        ends = character == ":" or (character == "!" and field[position + 1 : position + 2] != "=")
        if not opened and ends:
            break
        opened += (character in "([{") - (character in ")]}")
        position += 1
    return field[:position].rstrip().removesuffix("=").strip()
