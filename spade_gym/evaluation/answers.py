r"""Which part of a reply is its answer? The last one outside think blocks; nothing is guessed."""

from __future__ import annotations

import re

from spade_gym.evaluation.question import LETTERS
from spade_gym.programs.boxed import last_boxed, without_thoughts
from spade_gym.programs.extract import extract

#: Longest answer that is graded.
MOST_CHARS = 100_000
_LINE = re.compile(
    r"^[ \t*_#]{0,8}(?:final )?answer[ \t*_]{0,8}[:=][ \t*_]{0,8}(.{0,1000})$", re.IGNORECASE | re.MULTILINE
)
_OPEN, _CLOSE = "<answer>", "</answer>"
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf|boldsymbol)\s{0,4}\{(.*)\}", re.DOTALL)


def final_answer(reply: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}``, else what follows the last ``Answer:`` on its line.

    ``None`` where there is neither, or it is empty.
    """
    boxed = last_boxed(reply)
    if boxed is None:
        lines = _LINE.findall(without_thoughts(reply))
        boxed = lines[-1].strip(" \t*_") if lines else ""
    return _short(boxed)


def tagged_answer(reply: str) -> str | None:
    r"""Return the content of the last ``<answer>…</answer>``, else as :func:`final_answer`."""
    text = without_thoughts(reply)
    end = text.rfind(_CLOSE)
    start = text.rfind(_OPEN, 0, end) if end >= 0 else -1
    if start < 0:
        return final_answer(reply)
    return _short(text[start + len(_OPEN) : end].strip())


def chosen_letter(reply: str, choices: tuple[str, ...]) -> str | None:
    r"""Return the letter of the choice that a reply ends with.

    ``B``, ``(B)``, ``B)``, ``B.``, ``B: …`` and ``\text{B}`` are letters, and so is the text of exactly one choice.
    """
    answer = final_answer(reply)
    if answer is None:
        return None
    if (wrapped := _WRAPPED.fullmatch(answer)) is not None:
        answer = wrapped[1]
    letters = LETTERS[: len(choices)]
    found = re.match(r"\(?([A-Z])(?:\)|\.|:|$)", answer.strip())
    if found and found[1] in letters:
        return found[1]
    same = [letter for letter, choice in zip(letters, choices, strict=True) if plain(choice) == plain(answer)]
    return same[0] if len(same) == 1 else None


def written_code(reply: str) -> str | None:
    """Return the Python that a reply holds: its best fenced block, the last of equals (``programs/extract.py``)."""
    candidates = extract(reply).candidates
    return _short(candidates[0].source) if candidates else None


def plain(text: str) -> str:
    """Return a text with each run of blanks as one, and none around it."""
    return " ".join(text.split())


def _short(text: str) -> str | None:
    """An answer that is there and can be graded; a longer one is none."""
    return text if text and len(text) <= MOST_CHARS else None
