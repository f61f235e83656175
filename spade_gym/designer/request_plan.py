"""What is a designer asked for in a regeneration?

Everything is a function of the settings, the corpus, the memory and the numbers of regeneration, environment and
attempt: each environment draws from generators of its own, so asking again for some of them changes no others.
Source: method, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.views import Summary, designer_examples
from spade_gym.designer.corpus import MAX_WORDS, Corpus, draw_document
from spade_gym.designer.domains import draw_domain, draw_variant
from spade_gym.designer.request import DesignReply, DesignRequest, Difficulty, Document, Example, Repair
from spade_gym.designer.skills import (
    DIFFICULTIES,
    SKILLS_PER_REGENERATION,
    check_skills,
    draw_difficulty,
    skill_of_environment,
    skills_of,
    skills_of_epoch,
)
from spade_gym.types import SETTINGS, Setting

#: From a program's digest (or name, as tasks carry it) to its source; ``None`` where it is not kept any more.
SourceOf = Callable[[str], str | None]

#: Method, section 3: instructions of a tool-use program.
MIN_INSTRUCTIONS, MAX_INSTRUCTIONS = 3, 5
#: What a repair shows of an earlier reply and of the reasons against it.
MAX_REPLY_CHARS, MAX_REASONS, MAX_REASON_CHARS = 60_000, 12, 600

#: Streams of an environment's generators, so that a draw of one kind never moves another.
_FACTS, _MEMORY, _DOCUMENT, _SEED = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """What the requests of a run have in common.

    Attributes:
        setting: ``single_turn``, ``multi_turn`` or ``tool_use``.
        seed: Seeds every draw.
        num_environments: Programs of one pool.
        skills: In rotation order; the six of the setting by default.
        skills_per_regeneration: How many of them a regeneration asks for.
        difficulties: Drawn from with equal probability.
        min_instructions: Fewest instructions of a tool-use program; 1 for both asks for the single-instruction form.
        max_instructions: Most of them.
        max_words: Words of a document; ``None`` for 6,000 (games) or 4,000 (tool use).
    """

    setting: Setting
    seed: int = 0
    num_environments: int = 24
    skills: tuple[str, ...] = ()
    skills_per_regeneration: int = SKILLS_PER_REGENERATION
    difficulties: tuple[Difficulty, ...] = DIFFICULTIES
    min_instructions: int = MIN_INSTRUCTIONS
    max_instructions: int = MAX_INSTRUCTIONS
    max_words: int | None = None
    _rotation: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        """Refuse settings that ask for nothing, or for something that does not exist."""
        if self.setting not in SETTINGS:
            raise ValueError(f"setting must be one of {', '.join(SETTINGS)}, got {self.setting!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")
        if self.num_environments < 1:
            raise ValueError(f"num_environments must be at least 1, got {self.num_environments}")
        object.__setattr__(self, "_rotation", tuple(self.skills) or skills_of(self.setting))
        check_skills(self._rotation, self.setting)
        if not 1 <= self.skills_per_regeneration <= len(self._rotation):
            raise ValueError(
                f"skills_per_regeneration must be from 1 to the number of skills, {len(self._rotation)}, "
                f"got {self.skills_per_regeneration}"
            )
        wrong = [value for value in self.difficulties if value not in DIFFICULTIES]
        if wrong or not self.difficulties:
            raise ValueError(f"difficulties must be some of {', '.join(DIFFICULTIES)}, got {self.difficulties!r}")
        if not 1 <= self.min_instructions <= self.max_instructions:
            raise ValueError(
                "min_instructions and max_instructions must be at least 1 and in order, "
                f"got {self.min_instructions} and {self.max_instructions}"
            )
        if self.max_words is not None and self.max_words < 1:
            raise ValueError(f"max_words must be at least 1, got {self.max_words}")

    @property
    def words(self) -> int:
        """Words of a document that a request holds."""
        return self.max_words or MAX_WORDS[self.setting]

    def skill(self, epoch: int, index: int) -> str:
        """The skill of environment ``index`` of regeneration ``epoch``."""
        return skill_of_environment(index, skills_of_epoch(epoch, self._rotation, count=self.skills_per_regeneration))


def requests_for(
    epoch: int,
    settings: RequestSettings,
    *,
    corpus: Corpus | None,
    memory: Memory | None = None,
    source_of: SourceOf | None = None,
    now: int = 0,
    attempt: int = 0,
    indices: Iterable[int] | None = None,
) -> list[DesignRequest]:
    """Return the requests of one regeneration, in the order of the environments.

    Skill, difficulty, domain, variant and examples of an environment are the same in every attempt; its document and
    seed are drawn afresh. The memory must not change between the attempts of a regeneration.

    Args:
        epoch: Number of the regeneration, from 0.
        settings: What the requests have in common.
        corpus: Where documents come from; ``None`` for the ablation without one.
        memory: The environment memory; ``None`` for the ablation without one. Only tasks of the kind ``program`` are
            shown.
        source_of: Finds the source of a remembered program; needed with a memory.
        now: Number of the present ask of the memory.
        attempt: Number of the attempt, from 0.
        indices: Which environments are asked for; all by default.

    Raises:
        ValueError: A number is out of range, or a memory is given without ``source_of``.
    """
    if memory is not None and source_of is None:
        raise ValueError("requests with a memory need source_of, which finds the source of a remembered program")
    if attempt < 0:
        raise ValueError(f"attempt must be 0 or more, got {attempt}")
    wanted = range(settings.num_environments) if indices is None else list(indices)
    for index in wanted:
        if not 0 <= index < settings.num_environments:
            raise ValueError(f"indices must be from 0 to {settings.num_environments - 1}, got {index}")
    return [
        _with_examples(_request(epoch, index, attempt, settings, corpus), settings.seed, memory, source_of, now)
        for index in wanted
    ]


def repair_request(reply: DesignReply, reasons: Sequence[str], *, attempt: int) -> DesignRequest:
    """Return a request to mend a rejected reply: the same one, with what was written and why it was refused.

    Args:
        reply: The rejected reply.
        reasons: Why, one line each; they may quote the program and are shortened.
        attempt: Number of the new attempt, for its key.

    Raises:
        ValueError: There is nothing to mend, or no reason.
    """
    if not reply.text.strip() or not reasons:
        raise ValueError(
            f"a repair needs a reply with text and a reason, got {len(reasons)} reasons for {reply.error!r}"
        )
    epoch, index = _numbers(reply.request.key)
    shown = tuple(" ".join(reason.split())[:MAX_REASON_CHARS] for reason in reasons[:MAX_REASONS])
    return replace(
        reply.request,
        key=_key(epoch, index, attempt),
        seed=_derived(reply.request.seed, attempt),
        repair=Repair(reply.text[:MAX_REPLY_CHARS], shown),
    )


def _request(epoch: int, index: int, attempt: int, settings: RequestSettings, corpus: Corpus | None) -> DesignRequest:
    facts = _generator(settings.seed, _FACTS, epoch, index)
    tool_use = settings.setting == "tool_use"
    return DesignRequest(
        key=_key(epoch, index, attempt),
        setting=settings.setting,
        skill=settings.skill(epoch, index),
        difficulty=draw_difficulty(facts, settings.difficulties),
        seed=int(_generator(settings.seed, _SEED, epoch, index, attempt).integers(1 << 31)),
        document=_document(corpus, _generator(settings.seed, _DOCUMENT, epoch, index, attempt), settings),
        domain=draw_domain(facts) if tool_use else "",
        variant=draw_variant(facts) if tool_use else "",
        num_instructions=_num_instructions(facts, settings) if tool_use else 0,
    )


def _document(corpus: Corpus | None, rng: np.random.Generator, settings: RequestSettings) -> Document | None:
    return None if corpus is None else draw_document(corpus, rng, max_words=settings.words)


def _num_instructions(rng: np.random.Generator, settings: RequestSettings) -> int:
    return int(rng.integers(settings.min_instructions, settings.max_instructions + 1))


def _with_examples(
    request: DesignRequest, seed: int, memory: Memory | None, source_of: SourceOf | None, now: int
) -> DesignRequest:
    if memory is None or source_of is None:
        return request
    rng = _generator(seed, _MEMORY, *_numbers(request.key))
    found = designer_examples(memory, now=now, skill=request.skill, rng=rng)
    positives = [example for summary in found.positives if (example := _example(summary, source_of))]
    negative = None if found.negative is None else _example(found.negative, source_of)
    return replace(request, positives=tuple(positives), negative=negative)


def _example(summary: Summary, source_of: SourceOf) -> Example | None:
    """A remembered program as an example; ``None`` for what is no program, or has no known source or win rate."""
    if summary.task.kind != "program" or summary.wins is None:
        return None
    source = source_of(str(summary.task.value["program"]))
    if source is None:
        return None
    return Example(source, summary.wins.share, None if summary.regret is None else summary.regret.value)


def _key(epoch: int, index: int, attempt: int) -> str:
    return f"design/{epoch}/{index}/{attempt}"


def _numbers(key: str) -> tuple[int, int]:
    parts = key.split("/")
    if len(parts) != 4 or parts[0] != "design" or not all(part.isdecimal() for part in parts[1:]):
        raise ValueError(f"a request's key must be design/<epoch>/<index>/<attempt>, got {key!r}")
    return int(parts[1]), int(parts[2])


def _generator(seed: int, stream: int, *numbers: int) -> np.random.Generator:
    """A generator of its own for each stream and numbers."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, *numbers)))


def _derived(seed: int, attempt: int) -> int:
    return int(_generator(seed, _SEED, attempt).integers(1 << 31))
