"""A designer that draws finished programs: the bundled ones, or those of a pool (the ablation "static pool")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spade_gym.designer.deck import Deck, Label
from spade_gym.designer.request import DesignerError, DesignReply, DesignRequest
from spade_gym.programs.program import Program


class RegistryDesigner:
    """Draws programs without replacement until all were used; see :class:`~spade_gym.designer.deck.Deck`.

    Args:
        programs: At least one, for instance ``spade_gym.pool.registry()``.
        name: For reports and manifests.

    Raises:
        DesignerError: There are no programs.
        PoolError: An entry of the pool is damaged.
    """

    def __init__(self, programs: Iterable[Program], *, name: str = "registry") -> None:
        self.name = name
        self._programs = {program.digest: program for program in programs}
        if not self._programs:
            raise DesignerError("a designer that draws programs needs at least one, got none")
        self._deck = Deck(label_of(program) for program in self._programs.values())

    def write(self, requests: Sequence[DesignRequest]) -> list[DesignReply]:
        """Answer each request with a program that fits it; one that asks for a repair gets another program."""
        return [self._answer(request) for request in requests]

    def seen(self, reply: DesignReply) -> None:
        """Count a program that an earlier part of the run used."""
        if reply.program is not None:
            self._deck.use(reply.program.digest)

    def _answer(self, request: DesignRequest) -> DesignReply:
        digest = self._deck.draw(request)
        if digest is None:
            return DesignReply(request, "", error=f"no program for the setting {request.setting}")
        return program_reply(request, self._programs[digest], designer=self.name)


def label_of(program: Program) -> Label:
    """Return a program's label for a deck, named by its digest."""
    return Label(program.digest, program.setting, program.manifest.skill)


def program_reply(request: DesignRequest, program: Program, *, designer: str) -> DesignReply:
    """Return a reply that holds a finished program, in the form in which a model would have written it."""
    facts = {
        **program.manifest.origin,
        "designer": designer,
        "setting": program.setting,
        "skill": program.manifest.skill,
        "difficulty": program.manifest.difficulty,
    }
    text = f"```python\n{program.source.rstrip()}\n```\n"
    origin = tuple((key, value) for key, value in facts.items() if value)
    return DesignReply(request, text, origin=origin, program=program)
