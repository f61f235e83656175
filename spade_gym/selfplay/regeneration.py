"""A new pool: requests, replies, checks, hints. The old pool stays until the new one is accepted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spade_gym.curriculum.memory import Memory
from spade_gym.designer.attempt import Attempt
from spade_gym.designer.attempts import Design, Examiner, Judge, design
from spade_gym.designer.corpus import Corpus
from spade_gym.designer.diversity import Diversity
from spade_gym.designer.hints import Hint, HintWriter
from spade_gym.designer.request import Designer, DesignRequest
from spade_gym.designer.request_plan import requests_for
from spade_gym.programs.program import Program
from spade_gym.selfplay.design_journal import DesignJournal
from spade_gym.selfplay.environment import Environment, environment_of, with_hint
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.run_store import RunStore
from spade_gym.storable import storable


@dataclass(frozen=True, slots=True)
class Workshop:
    """Who makes pools.

    Attributes:
        recipe: The run's.
        store: Where everything is kept.
        designer: Writes programs.
        corpus: What they are grounded in; ``None`` in the ablation without one.
        hint_writer: Writes hints; ``None`` where programs bring their own.
        screen: Screens tool-use programs; ``None`` where nobody does.
        diversity: What earlier programs of the run were.
        judge: Runs the checks on a program.
    """

    recipe: Recipe
    store: RunStore
    designer: Designer
    corpus: Corpus | None
    hint_writer: HintWriter | None
    screen: Examiner | None
    diversity: Diversity
    judge: Judge

    def make_pool(self, epoch: int, rollout: int, memory: Memory | None) -> tuple[list[Environment], list[Design]]:
        """Ask for a pool, and return the environments that were accepted, with the way of every request.

        Args:
            epoch: Number of the regeneration.
            rollout: Number of its rollout.
            memory: What the requests show examples of; ``None`` in the ablation without one.
        """
        designs = self._designs(epoch, memory)
        accepted = [(index, item) for index, item in enumerate(designs) if item.program is not None]
        hints = self._hints([item.program for _, item in accepted if item.program is not None])
        environments = [
            _environment(index, item, hint, rollout) for (index, item), hint in zip(accepted, hints, strict=True)
        ]
        return environments, designs

    def _designs(self, epoch: int, memory: Memory | None) -> list[Design]:
        settings = self.recipe.requests()

        def fresh(attempt: int, indices: Sequence[int] | None = None) -> list[DesignRequest]:
            return requests_for(
                epoch, settings, corpus=self.corpus, memory=memory, source_of=self.store.source,
                now=memory.now if memory else 0, attempt=attempt, indices=indices,
            )  # fmt: skip

        def following(first: DesignRequest, attempt: int, last: Attempt) -> DesignRequest:
            return fresh(attempt, [environment_of(first.key)])[0]

        return design(
            self.designer, fresh(0), following, self.judge, rules=self.recipe.designer.rules(), screen=self.screen,
            diversity=self.diversity, journal=DesignJournal(self.store),
        )  # fmt: skip

    # ---- hints

    def _hints(self, programs: Sequence[Program]) -> list[str]:
        """The hint of each program, "" where there is none; what was already written is not asked for again."""
        if self.hint_writer is not None:
            missing = [program for program in programs if not program.manifest.hint and not self._kept(program.digest)]
            for hint in self.hint_writer.write(missing) if missing else ():
                if not hint.outage:  # an outage is no answer: the next start asks again
                    self.store.put("hints", row_of_hint(hint))
        return [self._hint_of(program) for program in programs]

    def _kept(self, digest: str) -> dict[str, Any] | None:
        return self.store.row("SELECT text FROM hints WHERE digest = ?", (digest,))

    def _hint_of(self, program: Program) -> str:
        if program.manifest.hint:
            return program.manifest.hint
        kept = self._kept(program.digest)
        return str(kept["text"]) if kept else ""


def row_of_hint(hint: Hint) -> dict[str, Any]:
    """A row of the table ``hints``."""
    tries = [{"text": storable(item.answer.text), "refusal": storable(item.refusal)} for item in hint.tries]
    return {
        "digest": hint.digest, "text": hint.text or "", "reason": storable(hint.reason), "note": hint.note,
        "tries": json.dumps(tries), "prompt_tokens": sum(item.prompt_tokens for item in hint.completions),
        "completion_tokens": sum(item.completion_tokens for item in hint.completions),
        "hint_seconds": sum(item.seconds for item in hint.completions),
    }  # fmt: skip


def _environment(index: int, item: Design, hint: str, rollout: int) -> Environment:
    attempt = item.attempts[-1]
    assert item.program is not None
    program = with_hint(item.program, hint) if hint else item.program
    return Environment(index, program, program.manifest.skill or item.request.skill, attempt.request.key, rollout)
