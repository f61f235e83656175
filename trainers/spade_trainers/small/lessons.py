"""What the warm start learns from: conversations that a script wrote, in the very prompts of a run.

Three kinds, as the two roles need them: a request and a program (the designer), a program and a hint (the hint
writer), and an episode (the agent). Lists are at most five items long; the suite's hardest tier begins beyond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spade_gym.designer.prompt_messages import messages_for
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.quoting import code_block
from spade_gym.designer.request import DesignRequest, Document, Example
from spade_gym.errors import ProgramFault
from spade_gym.models.base import Message
from spade_gym.programs.boxed import box
from spade_gym.programs.reply import program_from_source
from spade_gym.programs.solution_text import action_lines
from spade_gym.sandbox.session import Session
from spade_trainers.small.families import FAMILIES, THINGS, Made

#: Lengths of lists that a designer asks for without examples, and their shares: mostly too easy.
DESIGNED = {2: 0.4, 3: 0.35, 4: 0.2, 5: 0.05}
#: Lengths that the agent has seen, and their shares.
PLAYED = {2: 0.3, 3: 0.35, 4: 0.25, 5: 0.1}
LONGEST = 5

#: Families of each skill.
SKILL_FAMILIES = {
    "Mathematical Reasoning": ("sums", "steps"),
    "Logical Deduction": ("order",),
    "Pattern Recognition": ("rule",),
    "Spatial Reasoning": ("walk",),
    "Optimization": ("lock",),
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A conversation that ends with an answer.

    Attributes:
        kind: ``design``, ``hint`` or ``play``.
        messages: All of them; those of the assistant are learnt.
    """

    kind: str
    messages: tuple[Message, ...]


def draw_program(rng: np.random.Generator, skill: str, thing: str, length: int) -> Made:
    """Write a program of one of a skill's families."""
    return FAMILIES[str(rng.choice(SKILL_FAMILIES[skill]))](rng, thing, length)


def design_lesson(rng: np.random.Generator, prompts: Prompts) -> Lesson:
    """A request, with or without examples and document, and a program that suits it.

    With examples, lists become about as long as those of the programs that taught much; beside one that was too easy
    they become no shorter, beside one that was too hard no longer.
    """
    skill, thing = str(rng.choice(list(SKILL_FAMILIES))), str(rng.choice(THINGS))
    positives = [_made(rng, skill) for _ in range(int(rng.choice((0, 1, 2), p=(0.35, 0.15, 0.5))))]
    negative = _made(rng, skill) if rng.random() < (0.6 if positives else 0.2) else None
    easy = negative is not None and rng.random() < 0.7
    length = _wanted(rng, positives, negative, easy=easy)
    request = DesignRequest(
        key="design/0/0/0",
        setting="multi_turn",
        skill=skill,
        difficulty="medium",
        seed=0,
        document=Document(thing, thing) if rng.random() < 0.9 else None,
        positives=tuple(Example(made.source, *_scores(rng)) for made in positives),
        negative=None
        if negative is None
        else Example(negative.source, float(rng.uniform(0.92, 1) if easy else rng.uniform(0, 0.08)), None),
    )
    made = draw_program(rng, skill, thing, length)
    answer = Message("assistant", f"{code_block(made.source)}")
    return Lesson("design", (*messages_for(request, prompts), answer))


def hint_lesson(rng: np.random.Generator, prompts: Prompts) -> Lesson:
    """A program and what a player may be told about it."""
    made = _made(rng, str(rng.choice(list(SKILL_FAMILIES))))
    asked = prompts["hint_game"].fill(source=code_block(made.source), observation="")
    return Lesson("hint", (Message("user", asked), Message("assistant", made.hint)))


def play_lessons(made: Made, seeds: Sequence[int], *, hint: bool) -> Iterator[Lesson]:
    """Episodes of a program that are played well, in its sandbox.

    Raises:
        ProgramFault: The program failed.
    """
    program = program_from_source(made.source, name="lesson", setting="multi_turn")
    with Session(program) as session:
        slots = [session.open() for _ in seeds]
        for slot, shown in zip(slots, session.reset_many(list(zip(slots, seeds, strict=True))), strict=True):
            if isinstance(shown, ProgramFault):
                raise shown
            lines = action_lines(session.solution(slot) or "")
            moves = _halvings(int(lines[0]), made.halving) if made.halving else lines
            first = f"{shown.observation}\n\nHINT: {made.hint}" if hint else shown.observation
            messages = [Message("user", first)]
            for move in moves:
                if messages[-1].role == "assistant":
                    result = session.step(slot, messages[-1].content)
                    if result.truncated:  # a lock with a try too few
                        break
                    messages.append(Message("user", result.observation))
                messages.append(Message("assistant", box(move)))
            yield Lesson("play", tuple(messages))


def length_of(rng: np.random.Generator, shares: dict[int, float]) -> int:
    """Draw a length."""
    return int(rng.choice(list(shares), p=list(shares.values())))


def _made(rng: np.random.Generator, skill: str) -> Made:
    return draw_program(rng, skill, str(rng.choice(THINGS)), int(rng.integers(2, LONGEST + 1)))


def _wanted(rng: np.random.Generator, positives: Sequence[Made], negative: Made | None, *, easy: bool) -> int:
    if positives:
        middle = float(np.mean([made.length for made in positives]))
        length = int(np.floor(middle + rng.random())) + int(rng.choice((-1, 0, 1), p=(0.15, 0.5, 0.35)))
    else:
        length = length_of(rng, DESIGNED)
    if negative is not None:
        length = max(length, negative.length) if easy else min(length, negative.length)
    return min(max(length, 2), LONGEST)


def _scores(rng: np.random.Generator) -> tuple[float, float]:
    return float(rng.uniform(0.15, 0.85)), float(rng.normal(0.05, 0.15))


def _halvings(number: int, last: int) -> list[str]:
    low, high, said = 1, last, []
    while not said or said[-1] != number:
        said.append((low + high) // 2)
        low, high = (said[-1] + 1, high) if said[-1] < number else (low, said[-1] - 1)
    return [str(item) for item in said]
