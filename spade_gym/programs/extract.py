"""Which parts of a model's reply may be its program, best first?

A reply may hold thoughts, drafts, the program in one fence or several, usage examples, data, or code without
any fence. Nothing is decided here: every plausible part becomes a :class:`Candidate`, and
:mod:`spade_gym.programs.reply` takes the first that holds a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from spade_gym.programs.syntax import fault_of

_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060"
_FENCE = re.compile(
    rf"[ \t{_INVISIBLE}]*(?:[-*+][ ]+|\d{{1,3}}[.)][ ]+)?(`{{3,}}|~{{3,}})[ \t]*([^`\n]{{0,200}}?)[ \t\r]*$"
)
_PYTHON_TAG = re.compile(r"\{?\.?(?:python|py|ipython|pycon|sage)(?:[\d.]*)\b", re.IGNORECASE)
_THINK = re.compile(r"<think(?:ing)?>|</think(?:ing)?>")
_CLASS = re.compile(r"^[ \t]*class[ \t]+\w+", re.MULTILINE)
_METHODS = (re.compile(r"\bdef[ \t]+step\b"), re.compile(r"\bdef[ \t]+reset\b"))

#: Candidates made of one span, and of joined spans, at most.
MAX_SPANS = 24
MAX_JOINED = 10


class Candidate(NamedTuple):
    """A part of a reply that may be the program.

    Attributes:
        source: The text, without its fence lines.
        steps: How it was found: ``unclosed_think``, ``fence``, ``inner_fence``, ``unclosed_fence``, ``bare``,
            ``joined_fences``.
        line: 1-based line of the reply on which the text starts.
        closed: Whether its fences are closed; ``True`` for code without any.
    """

    source: str
    steps: tuple[str, ...]
    line: int
    closed: bool

    @property
    def bare(self) -> bool:
        """Whether prose may stand around the code, because nothing marks where it starts or ends."""
        return "bare" in self.steps or not self.closed


class _Fence(NamedTuple):
    """A line that opens or closes a fence: its index, marker (``"`" * n``) and info string."""

    line: int
    marker: str
    tag: str


class _Span(NamedTuple):
    """Lines ``first`` to ``last`` (exclusive) between two fence lines."""

    first: int
    last: int
    tag: str
    closed: bool
    outer: bool


class Extraction(NamedTuple):
    """What a reply may hold.

    Attributes:
        candidates: Best first.
        thought_code: Whether a class was seen inside a finished think block (never a candidate).
    """

    candidates: tuple[Candidate, ...]
    thought_code: bool


def extract(reply: str) -> Extraction:
    """Find the parts of a reply that may be its program.

    Args:
        reply: The raw text of a model, with or without think blocks, fences and prose.
    """
    lines, thoughts, unclosed = _mask_thoughts(reply.split("\n"))
    candidates = []
    if _complete(reply) and fault_of(reply.lstrip("\ufeff")) is None:
        candidates.append(Candidate(reply, ("bare",), 1, True))
    candidates += _candidates(lines, ())
    if unclosed:
        candidates += _candidates(thoughts, ("unclosed_think",))
    unique: dict[str, Candidate] = {}
    for candidate in candidates:
        if candidate.source.strip():
            unique.setdefault(candidate.source.strip(), candidate)
    thought_code = not unclosed and _CLASS.search("\n".join(thoughts)) is not None
    return Extraction(tuple(unique.values()), thought_code)


def _candidates(lines: Sequence[str], steps: tuple[str, ...]) -> Iterator[Candidate]:
    """Yield the candidates of a reply's lines: whole programs first, then bare code, then joined fences."""
    fences = [_Fence(index, match[1], match[2].strip()) for index, line in enumerate(lines) if (match := _fence(line))]
    spans = _outer_spans(fences, len(lines))
    yield from _whole(lines, fences, steps)
    order = sorted(range(len(spans)), key=lambda i: (*_rank(lines, spans[i]), -i))
    ranked = [spans[index] for index in order[:MAX_SPANS]]
    mixed = [span for span in ranked if _holds_fences(span, fences) and fault_of(_text(lines, span)) is not None]
    for span in ranked:
        if span not in mixed:
            yield _candidate(lines, span, steps)
    for span in _inner_spans(lines, fences, spans):
        yield _candidate(lines, span, steps)
    for span in mixed:
        yield _candidate(lines, span, steps)
    if fences and _CLASS.search("\n".join(lines)):
        yield Candidate("\n".join(lines), (*steps, "bare"), 1, all(span.closed for span in spans))
    yield from _joined(lines, spans, steps)


def _whole(lines: Sequence[str], fences: Sequence[_Fence], steps: tuple[str, ...]) -> Iterator[Candidate]:
    """Yield everything as bare code, when no fence opens before the first class or import."""
    code = next((i for i, line in enumerate(lines) if re.match(r"(?:class|import|from|def)[ \t]+\w", line)), None)
    if code is not None and (not fences or code < fences[0].line):
        head = lines[: fences[0].line] if fences else lines
        whole = "\n".join(lines)
        yield Candidate(whole, (*steps, "bare"), 1, True)
        if fences and _complete("\n".join(head)):
            yield Candidate("\n".join(head), (*steps, "bare"), 1, True)
    elif not fences and _CLASS.search("\n".join(lines)):
        yield Candidate("\n".join(lines), (*steps, "bare"), 1, True)


def _outer_spans(fences: Sequence[_Fence], total: int) -> list[_Span]:
    """Pair fences as Markdown does: a fence ends at a bare marker of its kind, at least as long."""
    spans: list[_Span] = []
    opened: _Fence | None = None
    for fence in fences:
        if opened is None:
            opened = fence
        elif not fence.tag and fence.marker.startswith(opened.marker):
            spans.append(_Span(opened.line + 1, fence.line, opened.tag, True, True))
            opened = None
    if opened is not None:
        spans.append(_Span(opened.line + 1, total, opened.tag, False, True))
    return spans


def _inner_spans(lines: Sequence[str], fences: Sequence[_Fence], outer: Sequence[_Span]) -> list[_Span]:
    """Return other readings: fences inside fences, fences whose end is another's start, ends further down.

    Those that compile come first, the last of them before the others; then the shorter before the longer.
    """
    found: list[_Span] = []
    for index, opened in enumerate(fences[:MAX_SPANS]):
        ends = [*fences[index + 1 : index + 1 + MAX_SPANS // 3], *fences[max(index + 1, len(fences) - 1) :]]
        found += [_Span(opened.line + 1, end.line, opened.tag, True, False) for end in dict.fromkeys(ends)]
        found.append(_Span(opened.line + 1, len(lines), opened.tag, False, False))
    known = {(span.first, span.last) for span in outer}
    found = [span for span in found if (span.first, span.last) not in known]
    found = [span for span in found if _CLASS.search(_text(lines, span))]
    found.sort(key=lambda span: (*_rank(lines, span), span.last - span.first))
    found = found[:MAX_SPANS]
    whole = [span for span in found if fault_of(_text(lines, span)) is None]
    whole.sort(key=lambda span: (*_rank(lines, span), -span.first))
    return whole + [span for span in found if span not in whole]


def _holds_fences(span: _Span, fences: Sequence[_Fence]) -> bool:
    return any(span.first <= fence.line < span.last for fence in fences)


def _rank(lines: Sequence[str], span: _Span) -> tuple[int, int, int]:
    """Rank a span (smaller is better): a complete class, a class, a Python tag."""
    text = _text(lines, span)
    python = 0 if _PYTHON_TAG.match(span.tag) else 1 if not span.tag else 2
    return (0 if _complete(text) else 1, 0 if _CLASS.search(text) else 1, python)


def _joined(lines: Sequence[str], spans: Sequence[_Span], steps: tuple[str, ...]) -> Iterator[Candidate]:
    """Yield runs of consecutive code fences as one text, short runs first; never two whole programs together."""
    code = [span for span in spans if not span.tag or _PYTHON_TAG.match(span.tag)][:MAX_JOINED]
    whole = [_complete(_text(lines, span)) for span in code]
    runs = [(start, start + size) for size in range(2, len(code) + 1) for start in range(len(code) - size + 1)]
    texts = ((run, "".join(_text(lines, span) for span in code[slice(*run)])) for run in runs)
    kept = ((run, text) for run, text in texts if sum(whole[slice(*run)]) < 2 and _complete(text))
    for (start, end), text in islice(kept, MAX_JOINED):
        yield Candidate(text, (*steps, "joined_fences"), code[start].first + 1, code[end - 1].closed)


def _candidate(lines: Sequence[str], span: _Span, steps: tuple[str, ...]) -> Candidate:
    """Make a candidate of a span, naming how it was found."""
    kind = "unclosed_fence" if not span.closed else "fence" if span.outer else "inner_fence"
    return Candidate(_text(lines, span), (*steps, kind), span.first + 1, span.closed)


def _text(lines: Sequence[str], span: _Span) -> str:
    return "\n".join(lines[span.first : span.last]) + "\n"


def _fence(line: str) -> re.Match[str] | None:
    """Match a fence line; a long line is none (this bounds the time that the pattern takes)."""
    return _FENCE.match(line) if len(line) <= 300 else None


def _complete(text: str) -> bool:
    """Whether the text seems to hold a class with ``step`` and ``reset``, or one that inherits them."""
    methods = all(method.search(text) for method in _METHODS) or "(ToolUseBaseEnv)" in text
    return methods and _CLASS.search(text) is not None


def _mask_thoughts(lines: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Split lines into what was said and what was thought, keeping line numbers.

    Tags inside a fence belong to the program and are left alone; a closing tag without an opening one makes
    everything before it a thought.

    Returns:
        The lines with thoughts blanked; the lines with all but thoughts blanked; whether the last thought is
        unclosed.
    """
    said, thought = list(lines), [""] * len(lines)
    if (orphan := _orphan_end(lines)) is not None:
        for index in range(orphan):
            said[index], thought[index] = "", lines[index]
        said[orphan] = _THINK.split(lines[orphan])[-1]
    marker, inside = "", False
    for index in range(0 if orphan is None else orphan + 1, len(lines)):
        line = lines[index]
        fence = None if inside else _fence(line)
        if fence:
            if not marker:
                marker = fence[1]
            elif not fence[2].strip() and fence[1].startswith(marker):
                marker = ""
        elif not marker and (inside or "<think" in line):
            said[index], thought[index], inside = _split_line(line, inside)
    return said, thought, inside


def _split_line(line: str, inside: bool) -> tuple[str, str, bool]:
    """Split one line at its think tags into said and thought; also tell whether a thought goes on after it."""
    said, thought, position = "", "", 0
    for tag in _THINK.finditer(line):
        part = line[position : tag.start()]
        said, thought = (said, thought + part) if inside else (said + part, thought)
        inside, position = not tag[0].startswith("</"), tag.end()
    rest = line[position:]
    return (said, thought + rest, True) if inside else (said + rest, thought, False)


def _orphan_end(lines: Sequence[str]) -> int | None:
    """Return the line of a ``</think>`` that no ``<think>`` opened and that code follows, or ``None``."""
    for index, line in enumerate(lines):
        tag = _THINK.search(line)
        if tag is None:
            continue
        alone = line.strip().startswith("</think") or line.strip().endswith(("</think>", "</thinking>"))
        if tag[0].startswith("</") and alone and _CLASS.search("\n".join(lines[index + 1 :])):
            return index
        return None
    return None
