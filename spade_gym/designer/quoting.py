"""How are texts of others (documents, programs, observations) put into a prompt as data?

Nothing makes a language model deaf to what it reads. What can be done is: a text cannot end its own frame, and it
holds no control tokens, which the tokenizer of a server may take for the end of the message (engines that are given
token ids are safe from that anyway). Think and tool tags stay: programs hold them rightly.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

#: Control and formatting characters (bidirectional, zero-width), line and paragraph separators, surrogates.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_CONTROL = re.compile(
    r"<(?=\|[^<>|\n]{1,60}\|>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|mask|(?:start|end)_of_turn)>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\])"
)
_TICKS = re.compile(r"`{3,}")
_MAX_TITLE = 200


def framed(text: str, *, label: str, title: str = "") -> str:
    """Return a text between two lines that name it and its digest; it cannot hold its own digest and end early.

    Args:
        text: Of any kind.
        label: What it is, in one word.
        title: Of the text; shortened to one line.
    """
    mark = f"{label} {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
    heading = " ".join(title.split())[:_MAX_TITLE]
    shown = f"{mark}: {heading}" if heading else mark
    return without_control_tokens(f"--- {shown} ---\n{text.strip()}\n--- end of {mark} ---")


def code_block(source: str) -> str:
    """Return source text in a Python fence that is longer than any inside it."""
    longest = max((len(ticks) for ticks in _TICKS.findall(source)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{without_control_tokens(source).strip()}\n{fence}"


def without_control_tokens(text: str) -> str:
    """Return a text in which a space parts what tokenizers may take for a control token: ``<|im_end|>``, ``</s>``."""
    return _CONTROL.sub(lambda found: f"{found[0]} ", text)


def hidden_character(text: str) -> str:
    """Return the first character that a terminal or reader would obey rather than show; "" for none.

    Line feeds and tabulators are none.
    """
    if text.isascii() and text.isprintable():
        return ""
    return next((char for char in text if char not in "\n\t" and unicodedata.category(char) in _HIDDEN), "")


def escaped(text: str) -> str:
    r"""Return a text on one line in which hidden characters and surrogates are escapes (``\x1b``); it can be stored."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _HIDDEN else char for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
