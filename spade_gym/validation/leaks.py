r"""Can the answer be read off the first observation? Check ``answer_leak``.

Overlap of texts proves nothing: options and numbers of the task occur in answers. So each *reading rule* ("what
stands in the second box", "what follows 'Current part:'") is played on seeds that it was not made from, and
rejects only when the text that it reads obtains, in one step, all that can be obtained.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from spade_gym.types import WIN_THRESHOLD
from spade_gym.validation import actions
from spade_gym.validation.context import Context
from spade_gym.validation.finding import Finding, failure
from spade_gym.validation.plays import Play, script

#: A rule must hold on this share of the seeds; guessing between two values holds on half of them.
MIN_SHARE = 0.75
_FIRST_SEEDS = range(4)
_MORE_SEEDS = range(4, 16)
_MAX_RULES = 120
_LEAST_RETURN = 0.5
_LABELLED_NUMBER = re.compile(r"([^\d\n]{0,24}?[A-Za-z][^\d\n]{0,6})(?<![\d.])(-?\d+(?:\.\d+)?(?:/\d+)?)")
_LABELLED_REST = re.compile(r"([A-Za-z][^\n:=]{0,30}[:=])[ \t]*([^\n]{1,60})")
_LABELLED_WORD = re.compile(r"([A-Za-z][\w ]{0,24}(?: is|:|=)) *[\"'(]?([\w/+-]{1,30})")
_BRACKETED = re.compile(r"([A-Za-z][^\n\"'(\[]{0,20})[\"'(\[]([^\n\"')\]]{1,40})[\"')\]]")

Reader = Callable[[str], str | None]


class Rule(NamedTuple):
    """A way to make an action out of a first observation.

    Attributes:
        name: What is read, and into which action it is put.
        read: Returns the text, or ``None`` where the observation has nothing of the kind.
        verb: What stands before the text in the action; ``""`` for a bare answer.
    """

    name: str
    read: Reader
    verb: str

    def action(self, observation: str) -> str | None:
        """The action that the rule makes of an observation."""
        text = self.read(observation)
        return None if text is None else actions.boxed(f"{self.verb}{text}")


def check_answer_leak(context: Context) -> Iterator[Finding]:
    """No reading rule obtains the whole return in one step on three quarters of 16 seeds.

    Source: method, section 4, point 5; issue 2, point 6.
    """
    if context.is_tool_use:
        return
    texts = context.firsts(_FIRST_SEEDS)
    nonsense = [(seed, script(actions.GARBAGE[:1])) for seed in _FIRST_SEEDS]
    blind = context.player().play_many(nonsense, steps=1, origin="search", reuse=True)
    if len(set(texts)) == 1 or any(play.won for play in blind):
        return  # there is nothing to read, or nothing that needs to be read
    rules = _useful(_rules(context, texts), texts)[:_MAX_RULES]
    held = _play(context, rules, list(_FIRST_SEEDS))
    good = [rule for rule in rules if len(held[rule.name]) >= MIN_SHARE * len(_FIRST_SEEDS)]
    if not good:
        return
    more = _play(context, good, list(_MORE_SEEDS))
    num_seeds = len(_FIRST_SEEDS) + len(_MORE_SEEDS)
    for rule in good:
        plays = [*held[rule.name], *more[rule.name]]
        if len(plays) >= MIN_SHARE * num_seeds:
            yield _leak(context, rule, plays, num_seeds)
            return


def _leak(context: Context, rule: Rule, plays: Sequence[Play], num_seeds: int) -> Finding:
    shown = plays[-1]
    return failure(
        "answer_leak",
        f"the first observation tells the answer: {rule.name} obtains all that can be obtained in one step, on "
        f"{len(plays)} of {num_seeds} seeds",
        rule=rule.name, seeds=[play.seed for play in plays], actions=shown.actions, rewards=shown.rewards,
        observation=context.firsts([shown.seed])[0],
    )  # fmt: skip


def _play(context: Context, rules: Sequence[Rule], seeds: Sequence[int]) -> dict[str, list[Play]]:
    """Plays of each rule, by its name, that obtained everything in one step."""
    texts = dict(zip(seeds, context.firsts(seeds), strict=True))
    tries = [(rule, seed, action) for rule in rules for seed in seeds if (action := rule.action(texts[seed]))]
    items = [(seed, script([action])) for _, seed, action in tries]
    plays = context.player().play_many(items, steps=1, origin="search", reuse=True)
    best: dict[int, float] = {}
    for play in context.plays:
        best[play.seed] = max(best.get(play.seed, 0.0), play.total)
    held: dict[str, list[Play]] = {rule.name: [] for rule in rules}
    for (rule, seed, _), play in zip(tries, plays, strict=True):
        if play.won or _is_everything(context, play, best[seed]):
            held[rule.name].append(play)
    return held


def _is_everything(context: Context, play: Play, best: float) -> bool:
    """It ended with a return that no play of any check surpassed, where all commands are known and none solves it."""
    solved = context.report.has_solution and best >= WIN_THRESHOLD
    known = context.announcement.finite and bool(context.commands)
    return play.ended and not solved and known and play.total >= max(_LEAST_RETURN, best)


# ---- rules


def _rules(context: Context, texts: Sequence[str]) -> list[Rule]:
    rules = [
        Rule(f"what stands in box {index + 1}", _box_reader(index), "")
        for index in range(max(len(actions.boxes(text)) for text in texts))
    ]
    rules += [Rule("what stands in the last box", _box_reader(-1), "")]
    readers = {name: reader for text in texts[:2] for name, reader in _labelled(text).items()}
    for verb in _verbs(context):
        into = f", after {verb.strip()!r}," if verb else ""
        rules += [Rule(f"{name}{into}", reader, verb) for name, reader in readers.items()]
    return rules


def _verbs(context: Context) -> list[str]:
    """Beginnings of announced commands and of one-line solutions, up to their last word; the bare answer first."""
    found = {"": None}
    lines = [context.solution_actions(seed) for seed in _FIRST_SEEDS]
    texts = [actions.unboxed(line[0]) for line in lines if len(line) == 1]
    for command in [*texts, *map(actions.unboxed, context.commands), *context.announcement.templates]:
        head, _, tail = command.rpartition(" ")
        if head and tail:
            found[f"{head} "] = None
    return [verb for verb in found if not re.search(r"\d", verb)][:4]


def _box_reader(index: int) -> Reader:
    def read(text: str) -> str | None:
        found = actions.boxes(text)
        return found[index] if -len(found) <= index < len(found) else None

    return read


def _labelled(text: str) -> dict[str, Reader]:
    """Readers for every number, word, bracket and rest of a line that follows a label in the text."""
    readers: dict[str, Reader] = {}
    for pattern, kind, tail in (
        (_LABELLED_NUMBER, "the number", r"\s*(-?\d+(?:\.\d+)?(?:/\d+)?)"),
        (_LABELLED_REST, "the rest of the line", r"[ \t]*([^\n]{1,60})"),
        (_LABELLED_WORD, "the word", r" *[\"'(]?([\w/+-]{1,30})"),
        (_BRACKETED, "the bracket", r"[\"'(\[]([^\n\"')\]]{1,40})[\"')\]]"),
    ):
        for match in pattern.finditer(text):
            label = match.group(1)
            readers[f"{kind} after {label.strip()!r}"] = _label_reader(label, tail)
    return readers


def _label_reader(label: str, tail: str) -> Reader:
    pattern = re.compile(re.escape(label.rstrip()) + r"\s*?" + tail)

    def read(text: str) -> str | None:
        match = pattern.search(text)
        return match.group(1).strip().rstrip(".,;") if match else None

    return read


def _useful(rules: Sequence[Rule], texts: Sequence[str]) -> list[Rule]:
    """Rules that read something everywhere, and not always the same; one of each kind of action."""
    found: dict[tuple[str | None, ...], Rule] = {}
    for rule in rules:
        read = tuple(rule.action(text) for text in texts)
        if len(set(read)) > 1 and sum(action is not None for action in read) >= MIN_SHARE * len(texts):
            found.setdefault(read, rule)
    return list(found.values())
