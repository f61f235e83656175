"""What the warm start learns from: conversations that a script wrote, in the very prompts of a run.

Three kinds, as the two roles need them: a request and a program (the designer), a program and a hint (the hint
writer), and an episode (the agent). The agent sees lists of at most five items, the designer of at most six; the
suite's hardest tier begins beyond.
"""

from __future__ import annotations

import re
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

#: Lengths that the agent has seen, and their shares.
PLAYED = {2: 0.3, 3: 0.35, 4: 0.25, 5: 0.1}
#: How often the script slips, by length: of lists in an answer, of walks in half as many steps.
SLIPS = {3: 0.1, 4: 0.35, 5: 0.6}

#: Families of each skill.
SKILL_FAMILIES = {
    "Mathematical Reasoning": ("sums", "steps"),
    "Logical Deduction": ("order",),
    "Pattern Recognition": ("rule",),
    "Spatial Reasoning": ("walk",),
    "Optimization": ("lock",),
}


@dataclass(frozen=True, slots=True)
class Designs:
    """How long the lists are that a designer asks for.

    Attributes:
        shares: Lengths without examples, and their shares: mostly too easy.
        steps: With examples of what taught much: shares of one shorter, as long, and one longer.
        margin: Beside an example that was too easy (too hard), lists are at least so much longer (shorter).
    """

    shares: dict[int, float]
    steps: tuple[float, float, float]
    margin: int

    @property
    def longest(self) -> int:
        """The longest lists."""
        return max(self.shares)


FIRST_DESIGNS = Designs({2: 0.4, 3: 0.35, 4: 0.2, 5: 0.05}, (0.15, 0.5, 0.35), 0)
LAST_DESIGNS = Designs({2: 0.4, 3: 0.33, 4: 0.17, 5: 0.07, 6: 0.03}, (0.25, 0.5, 0.25), 1)


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


def design_lesson(rng: np.random.Generator, prompts: Prompts, designs: Designs) -> Lesson:
    """A request, with or without examples and document, and a program that suits it."""
    skill, thing = str(rng.choice(list(SKILL_FAMILIES))), str(rng.choice(THINGS))
    num_positives = int(rng.choice((0, 1, 2), p=(0.35, 0.15, 0.5)))
    positives = [_made(rng, skill, designs.longest) for _ in range(num_positives)]
    negative = _made(rng, skill, designs.longest) if rng.random() < (0.6 if positives else 0.2) else None
    easy = negative is not None and rng.random() < 0.7
    length = _wanted(rng, designs, positives, negative, easy=easy)
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


def hint_lesson(rng: np.random.Generator, prompts: Prompts, designs: Designs) -> Lesson:
    """A program and what a player may be told about it."""
    made = _made(rng, str(rng.choice(list(SKILL_FAMILIES))), designs.longest)
    asked = prompts["hint_game"].fill(source=code_block(made.source), observation="")
    return Lesson("hint", (Message("user", asked), Message("assistant", made.hint)))


def play_lessons(
    made: Made, seeds: Sequence[int], *, hint: bool, slips: np.random.Generator | None = None
) -> Iterator[Lesson]:
    """Episodes of a program, in its sandbox, by a script that knows the answers.

    Args:
        made: The program.
        seeds: Of its instances.
        hint: Whether the player is given its hint.
        slips: Draws the script's slips: the longer the lists or the larger the grid, the more (``SLIPS``), as a player
            has them who knows what to do and is not careful yet. ``None`` for a script without any.

    Raises:
        ProgramFault: The program failed.
    """
    program = program_from_source(made.source, name="lesson", setting="multi_turn")
    rate = SLIPS.get(made.length, 0.0)
    with Session(program) as session:
        slots = [session.open() for _ in seeds]
        for slot, shown in zip(slots, session.reset_many(list(zip(slots, seeds, strict=True))), strict=True):
            if isinstance(shown, ProgramFault):
                raise shown
            answer = action_lines(session.solution(slot) or "")
            halvings = _halvings(int(answer[0]), made.halving) if made.halving else []
            first = f"{shown.observation}\n\nHINT: {made.hint}" if hint else shown.observation
            messages, observation = [Message("user", first)], shown.observation
            while True:
                if made.family == "walk":
                    move = _step(observation, slips, rate)
                else:
                    move = halvings.pop(0) if halvings else _copied(answer[0], slips, rate)
                messages.append(Message("assistant", box(move)))
                result = session.step(slot, box(move))
                if result.terminated or result.truncated:
                    break
                observation = result.observation
                messages.append(Message("user", observation))
            yield Lesson("play", tuple(messages))


def _step(observation: str, slips: np.random.Generator | None, rate: float) -> str:
    """A step towards the goal, east or west first; now and then any."""
    if slips is not None and slips.random() < rate / 2:
        return str(slips.choice(("east", "north", "west", "south")))
    x, y, goal_x, goal_y = map(int, re.findall(r"\d+", observation)[-4:])
    if x != goal_x:
        return "east" if goal_x > x else "west"
    return "north" if goal_y > y else "south"


def _copied(answer: str, slips: np.random.Generator | None, rate: float) -> str:
    """The answer; now and then with two neighbours exchanged."""
    items = answer.split()
    if slips is not None and slips.random() < rate:
        place = int(slips.integers(len(items) - 1))
        items[place : place + 2] = items[place : place + 2][::-1]
    return " ".join(items)


def length_of(rng: np.random.Generator, shares: dict[int, float]) -> int:
    """Draw a length."""
    return int(rng.choice(list(shares), p=list(shares.values())))


def _made(rng: np.random.Generator, skill: str, longest: int) -> Made:
    return draw_program(rng, skill, str(rng.choice(THINGS)), int(rng.integers(2, longest + 1)))


def _wanted(
    rng: np.random.Generator, designs: Designs, positives: Sequence[Made], negative: Made | None, *, easy: bool
) -> int:
    if positives:
        middle = float(np.mean([made.length for made in positives]))
        length = int(np.floor(middle + rng.random())) + int(rng.choice((-1, 0, 1), p=designs.steps))
    else:
        length = length_of(rng, designs.shares)
    if negative is not None:
        least, most = negative.length + designs.margin, negative.length - designs.margin
        length = max(length, least) if easy else min(length, most)
    return min(max(length, 2), designs.longest)


def _scores(rng: np.random.Generator) -> tuple[float, float]:
    return float(rng.uniform(0.15, 0.85)), float(rng.normal(0.05, 0.15))


def _halvings(number: int, last: int) -> list[str]:
    low, high = 1, last
    said: list[int] = []
    while not said or said[-1] != number:
        said.append((low + high) // 2)
        low, high = (said[-1] + 1, high) if said[-1] < number else (low, said[-1] - 1)
    return [str(item) for item in said]
