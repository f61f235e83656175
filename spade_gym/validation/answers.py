"""Does the answer check accept what is no answer? Check ``empty_answer``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spade_gym.validation import actions
from spade_gym.validation.context import SEEDS, Context
from spade_gym.validation.finding import Finding, failure
from spade_gym.validation.plays import Play, script

#: Texts that answer nothing; ``nan`` passes checks of the form ``not abs(answer - right) > tolerance``.
_NO_ANSWERS = ("", " ", ",", ".", "-", "nan", "inf", "1e400", "None", "null", "*", "?", ".*", "%")
#: Of these, the ones that hardly anybody plays: a program that raises on them has a blemish, not a flaw.
_EXOTIC = ("nan", "inf", "1e400")
_MIN_ACCEPTED = 3
#: Two plays of each seed.
_BATCH = 2 * len(SEEDS)
_VERB = re.compile(r"([A-Za-z_]+[\s:]+)(.+)", re.DOTALL)
_NUMBER_SOUP = " ".join(str(number) for number in range(201))


class _Try(NamedTuple):
    """One replacement of a solution's last line."""

    kind: str
    seed: int
    moves: list[str]


def check_empty_answer(context: Context) -> Iterator[Finding]:
    """The last line of the solution must not be replaceable by nothing, a fragment of it, or all answers at once.

    Each replacement is played after the other lines, and rejects when it wins on three of the seeds 0–4. A seed on
    which nonsense or another amount wins there as well shows nothing: its last move hardly matters (a day on which
    to wait is best, the last litre into a tank that is full enough).
    """
    if context.is_tool_use or any(play.total > 1 + 1e-6 for play in context.plays):
        return  # where returns exceed 1, a return of 1 shows nothing
    tries: list[_Try] = []
    for seed in SEEDS:
        lines = context.winning_actions(seed)
        if not lines or _last_move_is_idle(context, seed, lines):
            continue
        for kind, text in _replacements(context, actions.unboxed(lines[-1]), seed).items():
            tries.append(_Try(kind, seed, [*lines[:-1], actions.boxed(text)]))
    accepted: dict[str, list[Play]] = {}
    for origin in ("search", "exotic"):
        chosen = [item for item in _interleaved(tries) if _is_exotic(item) is (origin == "exotic")]
        items = [(item.seed, script(item.moves)) for item in chosen]
        plays = context.player().play_many(items, steps=context.steps, origin=origin, batch=_BATCH, reuse=True)
        for item, play in zip(chosen, plays, strict=True):
            if play.won:
                accepted.setdefault(item.kind, []).append(play)
    yield from _judge(accepted)


def _last_move_is_idle(context: Context, seed: int, lines: list[str]) -> bool:
    """Nonsense in the place of the last of several lines wins as well, or its number and one more."""
    if len(lines) < 2:
        return False
    others = [actions.GARBAGE[0]]
    number = re.search(r"(?<![\w.-])\d{1,9}$", actions.unboxed(lines[-1]))
    if number is not None:
        head = actions.unboxed(lines[-1])[: number.start()]
        others.append(actions.boxed(f"{head}{int(number.group()) + 1}"))
    items = [(seed, script([*lines[:-1], other])) for other in others]
    plays = context.player().play_many(items, steps=context.steps, origin="search", reuse=True)
    return any(play.won for play in plays)


def _interleaved(tries: list[_Try]) -> list[_Try]:
    """The seeds taking turns: few plays of one seed go on at once, so few instances of it have to be made."""
    places = {seed: 0 for seed in SEEDS}
    keyed: list[tuple[int, int, _Try]] = []
    for item in tries:
        keyed.append((places[item.seed], item.seed, item))
        places[item.seed] += 1
    return [item for _, _, item in sorted(keyed, key=lambda row: row[:2])]


def _is_exotic(item: _Try) -> bool:
    return actions.unboxed(item.moves[-1]).split(" ")[-1] in _EXOTIC


def _judge(accepted: Mapping[str, list[Play]]) -> Iterator[Finding]:
    """One failure at most; list elements count only if several different ones are each accepted."""
    for kind, plays in accepted.items():
        if kind == "its last element":
            continue
        seeds = {play.seed for play in plays}
        if kind == "its first element":
            seeds &= {play.seed for play in accepted.get("its last element", [])}
        if len(seeds) >= _MIN_ACCEPTED:
            yield failure(
                "empty_answer",
                f"the answer check accepts {kind} instead of the answer on {len(seeds)} of {len(SEEDS)} seeds",
                accepted=kind, seeds=sorted(seeds), actions=plays[0].actions[-3:], rewards=plays[0].rewards,
            )  # fmt: skip
            return


def _replacements(context: Context, last: str, seed: int) -> dict[str, str]:
    """What is played instead of the last line, by description."""
    verb, answer = "", last
    match = _VERB.fullmatch(last)
    if match is not None:
        verb, answer = match.groups()
    found = {f"{text!r}": text for text in _NO_ANSWERS}
    if verb:
        found |= {f"the command with {text!r} as its answer": f"{verb}{text}" for text in _NO_ANSWERS}
    found |= {f"{kind}": f"{verb}{text}" for kind, text in fragments(answer).items()}
    found["all numbers from 0 to 200"] = f"{verb}{_NUMBER_SOUP}"
    options = [option for option in actions.boxes(context.firsts([seed])[0]) if " " not in option]
    if len(set(options)) > 1:
        found["all options at once"] = " ".join(options)
        found["all options at once, with commas"] = ", ".join(options)
    return {kind: text for kind, text in found.items() if _differs(text, last)}


def _differs(text: str, last: str) -> bool:
    return "".join(text.split()).casefold() != "".join(last.split()).casefold()


def fragments(answer: str) -> dict[str, str]:
    """Parts of an answer that a careful check refuses, by description.

    Left out are parts that a merely lenient check may take: the initial of a word ("y" for "yes"), what follows a
    label ("4" of "x = 4"), and decimals with a digit less.
    """
    if len(answer) < 3 or re.search(r"[=:.)]", answer) or not (answer[0].isalnum() and answer[-1].isalnum()):
        return {}
    found: dict[str, str] = {}
    elements = [element for element in re.split(r"[,;\s]+", answer) if element]
    if len(elements) >= 3 and len(set(elements)) > 1:
        found |= {"its first element": elements[0], "its last element": elements[-1]}
    middle = answer[len(answer) // 2]
    found["its last character"] = answer[-1]
    if middle.isalnum():
        found["its middle character"] = middle
    found["its second half"] = answer[len(answer) // 2 :].strip(" ,;/")
    if answer[0].isdigit() and answer[0] != "0":
        found |= {"its first character": answer[0], "all but its last character": answer[:-1].rstrip(" ,;/")}
    return found
