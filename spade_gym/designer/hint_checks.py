r"""Does a written hint hold an answer, values of an instance, or code?

*Answers* (games): texts alone prove little, since options and numbers of a task stand in honest hints. So only what
is special to an instance counts: the lines of its solution that most other instances do not share. Four tokens of it,
a number of three digits or a code of three capitals, found in the hint, are no coincidence; shorter answers count when
they are found for more than half of the seeds. A whole sequence of moves ("left, up, up, right") counts however it is
punctuated.

*Values* (tool use): identifiers, paths, addresses and numbers of two digits or more that occur in observations,
results or calls of an instance; names that occur in them as values, or in the source as texts of their own; arguments
of several words, and those that differ between instances. Words of the tools' schemas are vocabulary, not values, and
so are plain words such as "cancelled" and single digits.

*Code* (both): a line of the source of eight tokens or more, texts aside, that stands in the hint.

Whether a hint wins outright when it is played is found out in play (``curriculum/hint_leaks.py``).
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spade_gym.curriculum.hint_leaks import OVERLAP, answer_overlap
from spade_gym.designer.instances import InstanceView
from spade_gym.programs.boxed import last_boxed
from spade_gym.sandbox.tool_calls import parse_action

#: So many tokens in one run are no coincidence; of code, which shares words with what it is about, it takes more.
LONG_ANSWER, LONG_CODE = 4, 8
_WORDS = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")
_TOKENS = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+|[^\w\s]")
_CODE = re.compile(r"\d{3,}|[A-Z]{3,}")
# All patterns take time linear in the text, whatever it holds: a program writes it, and nothing stops them here.
#: What an identifier is cut from, where it may begin, and what makes it one.
_RUN = re.compile(r"[\w.:/-]+")
_START = re.compile(r"(?<![\w/])/?\w")
_LETTER = re.compile(r"[A-Za-z]")
_SIGN = re.compile(r"\d|\w[_/.:]\w")
#: One digit too; \d++ and the like give nothing back, so that there is one way to read a run of digits.
_NUMBER = re.compile(r"(?<![\w.,-])\d++(?:,++\d++|\.\d++)*(?![\w-])")
_QUOTED = re.compile(r"['\"“‘]([^'\"“”‘’\n]{2,60})['\"”’]")
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+")
_NAME = re.compile(r"(?:[A-Z][^\W\d_]*[a-z]\.? ?){1,3}(?<! )")
_MAX_VALUE_CHARS = 80
#: Characters of an observation, and of a solution, that are looked at. A hint holds less.
_MAX_TEXT_CHARS = 50_000
_MAX_SOLUTION_CHARS = 4_000
_MAX_DEPTH = 24


def answer_leak(hint: str, views: Sequence[InstanceView]) -> str:
    """Return what of the instances' answers stands in a game's hint; "" for nothing.

    Args:
        hint: Its text.
        views: Several instances; those without a solution say nothing.
    """
    solutions = [[_unboxed(line) for line in _beginning(view.solution)] for view in views if view.solution]
    shared = Counter(line for lines in solutions for line in set(lines))
    found = []
    for lines in solutions:
        if _holds_sequence(hint, lines):
            return f"it holds the sequence of moves {_shortened(' '.join(lines))}"
        special = [line for line in lines if shared[line] <= len(solutions) / 2 or len(solutions) == 1]
        if not special or answer_overlap(hint, "\n".join(special)) < OVERLAP:
            continue
        if _is_no_coincidence(" ".join(special), hint):
            return f"it holds the answer {_shortened(' '.join(special))}"
        found.append(" ".join(special))
    if len(found) > len(solutions) / 2:
        return f"it holds the answers of {len(found)} of {len(solutions)} instances, such as {_shortened(found[0])}"
    return ""


def _is_no_coincidence(answer: str, hint: str) -> bool:
    """Whether an answer that stands in a hint is too long or too odd to stand there by chance."""
    if len(_TOKENS.findall(answer)) >= LONG_ANSWER:
        return True
    return any(_stands_in(code, hint, re.NOFLAG) for code in _CODE.findall(answer))


def _holds_sequence(hint: str, lines: Sequence[str]) -> bool:
    """Whether the hint holds nearly all words of several lines in one run, whatever stands between them."""
    answer = _WORDS.findall(" ".join(lines).casefold())
    if len(lines) < 2 or len(answer) < LONG_ANSWER:
        return False
    said = [word for word in _WORDS.findall(hint.casefold()) if word not in ("then", "and")]
    return answer_overlap(" ".join(said), " ".join(answer)) >= OVERLAP


def value_leak(hint: str, views: Sequence[InstanceView], *, source: str = "") -> str:
    """Return which value of the instances stands in a tool-use hint; "" for none.

    Args:
        hint: Its text.
        views: Several instances, played with their solutions.
        source: The program's source, for names that these instances did not show.
    """
    if parse_action(hint) != ([], None) or "<tool_call" in hint:
        return "it holds a tool call or an answer to copy"
    vocabulary = {word.casefold() for view in views for word in _WORDS.findall(json.dumps(view.tools))}
    said = hint.casefold()
    stated = [value for value in _values(views) | _names_in_source(source) if value.casefold() in said]
    for value in sorted(stated, key=lambda value: (-len(value), value)):
        words = {word.casefold() for word in _WORDS.findall(value)}
        flags = re.NOFLAG if value.isalpha() and value.istitle() else re.IGNORECASE  # "Will" is a name, "will" is not
        if words and not words <= vocabulary and _stands_in(value, hint, flags):
            return f"it holds the value {_shortened(value)}"
    return ""


def _names_in_source(source: str) -> set[str]:
    """Texts of the source that are names: one to three words that begin with capitals and go on with small letters."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    short = {text for text in texts if isinstance(text, str) and len(text) <= _MAX_VALUE_CHARS}
    return {text for text in short if _NAME.fullmatch(text)}


def source_leak(hint: str, source: str) -> str:
    """Return which line of code of the program stands in its hint; "" for none.

    Args:
        hint: Its text.
        source: The program's source.
    """
    said = _token_run(hint)
    for line in source.splitlines():
        code = line.strip()
        run = _token_run(code) if _is_code(code) else ""
        if run.count(" ") > LONG_CODE and run in said:
            return f"it quotes the source: {_shortened(code)}"
    return ""


def _is_code(line: str) -> bool:
    """Whether a line without texts and comments calls, indexes or assigns something."""
    return any(sign in line for sign in "=([") and not any(sign in line for sign in "'\"#")


def _token_run(text: str) -> str:
    """The tokens of a text with a space around each: one more space than tokens."""
    return " ".join(["", *_TOKENS.findall(text.casefold()), ""])


def _values(views: Sequence[InstanceView]) -> set[str]:
    """Everything that is special to an instance, as texts."""
    found: set[str] = set()
    arguments: list[set[str]] = []
    for view in views:
        texts = [text[:_MAX_TEXT_CHARS] for text in (view.first, *view.replies)]
        arguments.append(set(_arguments(view.solution or ())))
        for text in (*texts, *arguments[-1]):
            found.update(_identifiers(text))
        found.update(value for text in texts[1:] for value in _json_values(text) if _is_name(value))
        found.update(value for value in arguments[-1] if _is_name(value))
        found.update(value for text in texts for value in _QUOTED.findall(text) if _is_name(value))
    everywhere = set.intersection(*arguments) if arguments else set()
    varying = set().union(*arguments) - everywhere if len(arguments) > 1 else set()
    special = varying | {value for value in set().union(*arguments) if " " in value.strip()}
    return found | {value for value in special if 3 <= len(value) <= _MAX_VALUE_CHARS and not value.isdecimal()}


def _identifiers(text: str) -> Iterator[str]:
    """Identifiers, addresses, and numbers of two digits or more."""
    for values in (_ADDRESS.findall(text), map(_identifier, _RUN.findall(text)), _NUMBER.findall(text)):
        yield from (value for value in values if 2 <= len(value) <= _MAX_VALUE_CHARS)


def _identifier(run: str) -> str:
    """The identifier in a run: letters with digits, or with an underscore, slash, dot or colon between; "" for none."""
    start = _START.search(run)
    value = run[start.start() :].rstrip(".:/-") if start else ""
    return value if _LETTER.search(value) and _SIGN.search(value) else ""


def _is_name(value: str) -> bool:
    """Whether a value is a proper name or title: it holds a capital and is short."""
    return 2 <= len(value) <= _MAX_VALUE_CHARS and any(word[:1].isupper() for word in value.split())


def _arguments(solution: Iterable[str]) -> Iterator[str]:
    for action in solution:
        calls, _ = parse_action(action)
        for call in calls:
            yield from _texts_in(call.arguments)


def _json_values(reply: str) -> Iterator[str]:
    """Texts and numbers of the JSON documents in a tool's reply, one a line or the whole."""
    for part in (reply.split("\n\n")[0], *reply.split("\n")):
        if not part.strip():
            continue
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            continue
        yield from _texts_in(value)


def _texts_in(value: Any, depth: int = 0) -> Iterator[str]:
    """Texts and numbers inside JSON values, keys of objects with digits included."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if any(char.isdigit() for char in str(key)):
                yield str(key)
            yield from _texts_in(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item, depth + 1)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _stands_in(value: str, hint: str, flags: re.RegexFlag = re.IGNORECASE) -> bool:
    pattern = rf"(?<![\w.-]){re.escape(value)}(?![\w-])(?!\.\d)"
    return re.search(pattern, hint, flags) is not None


def _beginning(solution: Sequence[str]) -> list[str]:
    """The first lines of a solution, up to a limit on their characters."""
    left, lines = _MAX_SOLUTION_CHARS, []
    for line in solution:
        lines.append(line[:left])
        left -= len(line)
        if left <= 0:
            break
    return lines


def _unboxed(line: str) -> str:
    content = last_boxed(line)
    return line.strip() if content is None else content


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")
