"""From requests to accepted programs: up to five attempts each, every reply kept, in an order that can be resumed.

All programs that are still missing are asked for at once, so that a model's batch stays full. What happens to one
request does not depend on how fast another one is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

from spade_gym.designer.attempt import Attempt, read_program
from spade_gym.designer.diversity import Diversity
from spade_gym.designer.request import Designer, DesignerError, DesignReply, DesignRequest, check_outage
from spade_gym.designer.request_plan import repair_request
from spade_gym.designer.screen import Screening
from spade_gym.errors import ManifestError, ReplyError
from spade_gym.in_order import in_order
from spade_gym.programs.program import Program
from spade_gym.validation.finding import Verdict, failure

#: Method, section 2.
MAX_ATTEMPTS = 5

#: Runs the checks on a program, for instance ``spade_gym.validation.validate``; called from several threads.
Judge = Callable[[Program], Verdict]
#: Builds the next request for a fresh program: from the first request, the number of the attempt (1, 2, …) and the
#: attempt before it. Its result may depend on nothing else, so that a resumed run builds the same.
NextRequest = Callable[[DesignRequest, int, Attempt], DesignRequest]


class Examiner(Protocol):
    """A second opinion on tool-use programs that passed the checks: :class:`~spade_gym.designer.screen.Screen`."""

    def examine(self, programs: Sequence[Program]) -> list[Screening]:
        """Screen programs, in order."""


class Journal(Protocol):
    """Where a run keeps what happened, so that it can go on after it was killed."""

    def known(self, request: DesignRequest) -> Attempt | DesignReply | None:
        """Return what was kept for a request's ``key``: the judged attempt, else the reply, else ``None``."""

    def keep(self, item: Attempt | DesignReply) -> None:
        """Keep a reply that was written, or an attempt that was judged; those of an outage are never kept."""


@runtime_checkable
class Recalls(Protocol):
    """A designer whose next reply depends on earlier ones."""

    def seen(self, reply: DesignReply) -> None:
        """Take note of a reply that it gave in an earlier part of the run; it is not written again."""


@dataclass(frozen=True, slots=True)
class Design:
    """What became of one request.

    Attributes:
        request: The first request.
        attempts: Every attempt, in order; at least one, and only the last may be accepted.
    """

    request: DesignRequest
    attempts: tuple[Attempt, ...]

    @property
    def program(self) -> Program | None:
        """The accepted program; ``None`` when all attempts were used up."""
        return self.attempts[-1].program if self.attempts[-1].accepted else None


@dataclass(frozen=True, slots=True)
class Rules:
    """When a request is given up, and what is refused beyond the checks.

    Attributes:
        max_attempts: Fresh replies for each request, at least 1.
        max_repairs: Times that a rejected reply is sent back with its reasons before a fresh one is asked for.
        refuse: Kinds of notices that reject a program.
        jobs: Programs that are checked at a time.

    Raises:
        ValueError: A number is out of range.
    """

    max_attempts: int = MAX_ATTEMPTS
    max_repairs: int = 0
    refuse: frozenset[str] = frozenset({"duplicate", "same_code"})
    jobs: int = 1

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense."""
        for name, least in (("max_attempts", 1), ("max_repairs", 0), ("jobs", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)!r}")


def design(
    designer: Designer,
    requests: Sequence[DesignRequest],
    next_request: NextRequest,
    judge: Judge,
    *,
    rules: Rules | None = None,
    screen: Examiner | None = None,
    diversity: Diversity | None = None,
    journal: Journal | None = None,
) -> list[Design]:
    """Ask until every request has an accepted program, or has used up its attempts.

    Args:
        designer: Writes the replies.
        requests: The first request of each program, with distinct keys.
        next_request: Builds the further ones, with a fresh document and another key.
        judge: Runs the checks.
        rules: How often to ask, and what to refuse.
        screen: A second opinion on programs that passed.
        diversity: What earlier programs of the run were; the accepted ones are added to it.
        journal: Where replies and attempts are kept; what it knows is neither asked nor judged again.

    Returns:
        One design a request, in order.

    Raises:
        DesignerError: The designer did not answer every request in order, or a key came twice.
        DesignerOutage: The model failed for more than half of the replies or screenings of a round. Fewer cost those
            requests an attempt (``no_reply``, ``screened``), which a resumed run makes anew.
        SandboxError: The sandbox cannot do its work; nothing may be concluded about the programs.
    """
    rules = rules or Rules()
    desk = _Desk(designer, judge, rules, screen, diversity or Diversity(), journal)
    attempts: list[list[Attempt]] = [[] for _ in requests]
    due = dict(enumerate(requests))
    keys: set[str] = set()
    while due:
        _check_keys(due.values(), keys)
        for place, attempt in zip(list(due), desk.round(list(due.values())), strict=True):
            attempts[place].append(attempt)
            following = _following(requests[place], attempts[place], next_request, rules)
            if following is None:
                del due[place]
            else:
                due[place] = following
    return [Design(request, tuple(made)) for request, made in zip(requests, attempts, strict=True)]


def _check_keys(requests: Iterable[DesignRequest], keys: set[str]) -> None:
    """Refuse a key that was used before: the journal could not tell the two apart."""
    for request in requests:
        if request.key in keys:
            raise DesignerError(f"two design requests have the key {request.key!r}; every attempt needs its own")
        keys.add(request.key)


def _following(
    first: DesignRequest, made: Sequence[Attempt], next_request: NextRequest, rules: Rules
) -> DesignRequest | None:
    """What to ask after the latest attempt; ``None`` when it was accepted or all attempts are used up."""
    latest = made[-1]
    if latest.accepted:
        return None
    fresh = [place for place, attempt in enumerate(made) if attempt.request.repair is None]
    can_mend = latest.outcome in ("unread", "rejected", "screened") and not latest.outage
    if can_mend and len(made) - 1 - fresh[-1] < rules.max_repairs:
        return repair_request(latest.reply, latest.reasons, attempt=len(made))
    return next_request(first, len(made), latest) if len(fresh) < rules.max_attempts else None


class _Open(NamedTuple):
    """A reply whose program is still to be checked."""

    reply: DesignReply
    program: Program


class _Desk:
    """Has one round of requests written, judged and kept."""

    def __init__(
        self,
        designer: Designer,
        judge: Judge,
        rules: Rules,
        screen: Examiner | None,
        diversity: Diversity,
        journal: Journal | None,
    ) -> None:
        self._designer = designer
        self._judge = judge
        self._rules = rules
        self._screen = screen
        self._diversity = diversity
        self._journal = journal

    def round(self, requests: Sequence[DesignRequest]) -> list[Attempt]:
        """Return one attempt for each request, in order."""
        items = self._written(requests)
        read = [item if isinstance(item, Attempt) else self._read(item) for item in items]
        judged = self._judged([item for item in read if isinstance(item, _Open)])
        made = []
        for item, found in zip(items, read, strict=True):
            attempt = self._compared(next(judged) if isinstance(found, _Open) else found, decided=item is found)
            if item is not found and self._journal is not None and not attempt.outage:
                self._journal.keep(attempt)
            made.append(attempt)
        fresh = [attempt.screening for item, attempt in zip(items, made, strict=True) if item is not attempt]
        screened = [screening for screening in fresh if screening is not None]
        check_outage([item.reason for item in screened if item.outage], len(screened), "screenings")
        return made

    def _written(self, requests: Sequence[DesignRequest]) -> list[Attempt | DesignReply]:
        """What is known of each request; the designer is asked for all others at once."""
        known = [self._journal.known(request) if self._journal is not None else None for request in requests]
        if isinstance(self._designer, Recalls):
            for item in known:
                if item is not None:
                    self._designer.seen(item.reply if isinstance(item, Attempt) else item)
        missing = [request for request, item in zip(requests, known, strict=True) if item is None]
        replies = list(self._designer.write(missing)) if missing else []
        if [reply.request.key for reply in replies] != [request.key for request in missing]:
            raise DesignerError(
                f"the designer {self._designer.name!r} must answer each of {len(missing)} requests, in order; "
                f"it gave {len(replies)} replies to {[reply.request.key for reply in replies][:5]}…"
            )
        for reply in replies:
            if self._journal is not None and not reply.outage:
                self._journal.keep(reply)
        check_outage([reply.error for reply in replies if reply.outage], len(replies), "replies")
        fresh = iter(replies)
        return [next(fresh) if item is None else item for item in known]

    def _read(self, reply: DesignReply) -> Attempt | _Open:
        """Read a reply's program; what cannot be read, or is an accepted one again, needs no checks."""
        if reply.error or not reply.text.strip():
            found = failure("reply", reply.error or "the reply is empty")
            return Attempt(reply, "no_reply", (found,))
        try:
            program = read_program(reply)
        except ReplyError as error:
            return Attempt(reply, "unread", (failure(error.check, str(error)),))
        except ManifestError as error:  # what the designer says about its program cannot be kept
            return Attempt(reply, "unread", (failure("manifest", str(error)),))
        if program.digest in self._diversity and "duplicate" in self._rules.refuse:
            return Attempt(reply, "duplicate", program=program)
        return _Open(reply, program)

    def _judged(self, items: Sequence[_Open]) -> Iterator[Attempt]:
        """Check programs, several at a time, and yield the attempts in order, as soon as they are known."""
        verdicts = in_order(self._judge, [item.program for item in items], jobs=self._rules.jobs)
        attempts = (_attempt(item, verdict) for item, verdict in zip(items, verdicts, strict=True))
        return iter(self._screened(list(attempts))) if self._screen is not None else attempts

    def _screened(self, attempts: list[Attempt]) -> list[Attempt]:
        """Ask the screen about the tool-use programs that passed all checks, at once."""
        wanted = [item.program for item in attempts if item.accepted and item.program and _is_tool_use(item.program)]
        if self._screen is None or not wanted:
            return attempts
        found = {item.digest: item for item in self._screen.examine(wanted)}
        return [
            _after_screening(item, found.get(item.program.digest))
            if item.accepted and item.program and _is_tool_use(item.program)
            else item
            for item in attempts
        ]

    def _compared(self, attempt: Attempt, *, decided: bool) -> Attempt:
        """Compare an accepted or repeated program with the earlier ones; what the journal knows stays as it was."""
        if attempt.outcome not in ("accepted", "duplicate") or attempt.program is None:
            return attempt
        document = attempt.request.document
        grounded = document is not None and dict(attempt.reply.origin).get("document") == document.id
        notices = self._diversity.add(attempt.program, document.text if document and grounded else "")
        if decided:
            return attempt
        refused = [notice for notice in notices if notice.kind in self._rules.refuse]
        if not refused:
            return replace(attempt, notices=notices)
        failures = tuple(failure("diversity", item.message, resembles=item.resembles) for item in refused)
        return replace(attempt, outcome="duplicate", failures=failures, notices=notices)


def _attempt(item: _Open, verdict: Verdict) -> Attempt:
    return Attempt(
        item.reply,
        "accepted" if verdict.accepted else "rejected",
        verdict.failures,
        verdict.warnings,
        verdict.program or item.program,
        seconds=verdict.seconds,
    )


def _is_tool_use(program: Program) -> bool:
    return program.setting == "tool_use"


def _after_screening(attempt: Attempt, screening: Screening | None) -> Attempt:
    """The attempt with the screen's word; without one it is not accepted."""
    if screening is not None and screening.accepted:
        return replace(attempt, screening=screening)
    status, reason = ("not_screened", "no answer") if screening is None else (screening.status, screening.reason)
    found = failure("screen", f"{status}: {reason}")
    return replace(attempt, outcome="screened", failures=(found,), screening=screening)
