"""Repairs of a program's text: what stands around the code, its indentation and its characters.

Each function takes a text and returns the repaired one, or ``None`` where it has nothing to repair.
"""

from __future__ import annotations

import re

from spade_gym.programs.literals import code_spans
from spade_gym.programs.syntax import fault_of

_FENCE_LINE = re.compile(r"[ \t]*+(?:`{3,}+|~{3,}+)[ \t]*+[\w.+#-]{0,20}+[ \t]*+")
_LANGUAGE = re.compile(r"(?:python|py|python3)", re.IGNORECASE)
_ZERO_WIDTH = "\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u00ad\ufeff"
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_INVISIBLE = str.maketrans(dict.fromkeys(_ZERO_WIDTH, "") | dict.fromkeys(_SPACES, " "))
_DOUBLE, _SINGLE = "\u201c\u201d\u201e\u201f\u2033", "\u2018\u2019\u201a\u201b\u2032"
_QUOTES = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))
_CODE_START = re.compile(
    r"import\s+[\w.]+(?:\s+as\s+\w+)?(?:\s*,.*)?\s*(?:#.*)?$|from\s+[\w.]+\s+import\b|class\s+\w+\s*(?:\(.*\))?\s*:"
    r"|def\s+\w+\s*\(|async\s+def\s|@\w|#!|\"\"\"|'''|[A-Za-z_]\w*\s*(?::\s*[\w\[\], .]+)?=[^=]|if\s+__name__"
)
_CODE_LINE = re.compile(
    r"[@)\]}\"']|(?:class|def|async|import|from\s+\S+\s+import|return|raise|global|assert|del|pass|yield)\b"
    r"|(?:if|for|while|with|elif|else|try|except|finally|match|case)\b.*:\s*(?:#.*)?$"
    r"|[\w.]+(?:\[[^\]]*\])?\s*(?::\s*[\w\[\], .]+)?(?:[-+*/|&%^]|//|\*\*)?=[^=]|[\w.]+\(.*\)?\s*(?:#.*)?$"
)
#: Characters of a line that tell code from prose; bounds the time that the patterns above take.
_LOOK = 300
_WORDS = re.compile(r"[^\W\d_]{2,}")


def strip_bom(source: str) -> str | None:
    """Remove a byte-order mark at the start."""
    return source.lstrip("\ufeff") if source.startswith("\ufeff") else None


def normalise_newlines(source: str) -> str | None:
    r"""Turn ``\r\n`` and ``\r`` into ``\n``, as Python itself reads them."""
    return source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else None


def remove_language_tag(source: str) -> str | None:
    """Remove a first line that is only the word ``python``: the rest of a lost fence."""
    head, _, rest = source.lstrip("\n").partition("\n")
    return rest if _LANGUAGE.fullmatch(head.strip(" \t")) and rest.strip() else None


def remove_stray_fence(source: str) -> str | None:
    """Remove fence lines at both ends, or, when that is not enough, wherever they stand."""
    lines = source.rstrip().split("\n")
    if lines[-1].rstrip().endswith("```") and not _FENCE_LINE.fullmatch(lines[-1]):
        lines[-1] = lines[-1].rstrip().rstrip("`")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    last = len(lines)
    while first < last and _FENCE_LINE.fullmatch(lines[first]):
        first += 1
    while last > first and (_FENCE_LINE.fullmatch(lines[last - 1]) or not lines[last - 1].strip()):
        last -= 1
    trimmed = "\n".join(lines[first:last]) + "\n"
    if trimmed.rstrip() != source.strip() and fault_of(trimmed) is None:
        return trimmed
    bare = "\n".join(line for line in lines if not _FENCE_LINE.fullmatch(line)) + "\n"
    return bare if bare.strip() != source.strip() else None


def leading_prose(source: str) -> str | None:
    """Remove sentences before the first line of code."""
    lines = source.split("\n")
    start = next((i for i, line in enumerate(lines) if _CODE_START.match(line.lstrip()[:_LOOK])), 0)
    head = [line for line in lines[:start] if line.strip() and not line.lstrip().startswith("#!")]
    return "\n".join(lines[start:]) if head and all(is_prose(line) for line in head) else None


def trailing_prose(source: str) -> str | None:
    """Remove sentences after the last line of code, if what stays compiles.

    A line is a sentence only at the left margin, so code that was cut off in the middle is never shortened
    to something that compiles.
    """
    lines = source.split("\n")
    end = len(lines)
    while end and (not lines[end - 1].strip() or is_prose(lines[end - 1])):
        end -= 1
    tail = [line for line in lines[end:] if line.strip()]
    shortened = "\n".join(lines[:end]) + "\n"
    return shortened if end and tail and fault_of(shortened) is None else None


def is_prose(line: str) -> bool:
    """Whether a line at the left margin reads as a sentence, a list item, a heading or a tag, and not as code."""
    line = line[:_LOOK]
    if line[:1] in (" ", "\t") and not re.match(r"\s+(?:[-*•]|\d+[.)])\s", line):
        return False
    text = line.strip()
    if re.fullmatch(r"</?[A-Za-z_]{1,30}>", text):
        return True
    if re.match(r"#{1,6}\s|[-*•>]\s|\*\*|\d+[.)]\s|---+$|\*\*\*+$", text):
        return True
    if _CODE_LINE.match(text):
        return False
    words = _WORDS.findall(text)
    return len(words) >= 2 or (len(words) == 1 and text[-1] in ".:!?")


def dedent(source: str) -> str | None:
    """Remove the indentation of the first line of code from every line that has it."""
    lines = source.split("\n")
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    margin = first[: len(first) - len(first.lstrip(" \t"))]
    if not margin:
        return None
    return "\n".join(line.removeprefix(margin) for line in lines)


def expand_tabs(source: str) -> str | None:
    """Turn tabs in the indentation into spaces, where tabs and spaces are mixed so that Python refuses."""
    fault = fault_of(source)
    if fault is None or fault.kind not in ("TabError", "IndentationError"):
        return None
    if not re.search(r"^ *\t", source, re.MULTILINE):
        return None
    versions = [_expand(source, size) for size in (4, 8)]
    return next((version for version in versions if fault_of(version) is None), versions[0])


def remove_invisible(source: str) -> str | None:
    """Remove zero-width characters, and make exotic spaces plain, outside string literals."""
    return _translate(source, _INVISIBLE)


def smart_quotes(source: str) -> str | None:
    """Make typographic quotation marks plain where they stand outside string literals."""
    return _translate(source, _QUOTES)


def _expand(source: str, size: int) -> str:
    indent = re.compile(r"^[ \t]+", re.MULTILINE)
    return indent.sub(lambda match: match[0].expandtabs(size), source)


def _translate(source: str, table: dict[int, str]) -> str | None:
    """Translate characters outside literals and comments."""
    parts: list[str] = []
    position = 0
    for start, end in code_spans(source):
        parts += [source[position:start], source[start:end].translate(table)]
        position = end
    result = "".join([*parts, source[position:]])
    return result if result != source else None
