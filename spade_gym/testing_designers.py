"""Does a designer keep its promises? A conformance check, run by built-in designers and by third parties' alike."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from spade_gym.designer.attempts import Recalls
from spade_gym.designer.request import Designer, DesignReply, DesignRequest, Document, Repair
from spade_gym.programs.manifest_values import check_origin
from spade_gym.types import SETTINGS, Setting

_DOCUMENT = Document("check-1", "Coins are weighed in pairs until the false one is known.", "Weighing")
_SKILLS: dict[Setting, str] = {
    "single_turn": "Mathematical Reasoning",
    "multi_turn": "Logical Deduction",
    "tool_use": "Error Recovery",
}


def check_designer(make: Callable[[], Designer], *, settings: Sequence[Setting] = SETTINGS) -> None:
    """Check a designer: one reply a request, in order, with usable texts, and the same ones from a fresh designer.

    A designer that has ``seen`` earlier replies of a run must go on as if it had written them itself.

    Args:
        make: Makes a fresh designer; a language model behind it must answer equal requests equally.
        settings: What it can be asked for.

    Raises:
        AssertionError: It breaks a promise; the message says what was expected and found.
    """
    designer = make()
    assert isinstance(designer.name, str), f"a designer's name must be text, got {designer.name!r}"
    assert designer.name, "a designer needs a name"
    assert designer.write([]) == [], "no requests must give no replies"
    requests = _requests(settings)
    before = copy.deepcopy(requests)
    replies = designer.write(requests)
    assert requests == before, "a designer must not change its requests"
    assert isinstance(replies, list), f"write must return a list, got {type(replies).__name__}"
    assert [reply.request for reply in replies] == requests, "every request needs its reply, in order"
    for reply in replies:
        _check_reply(reply)
    assert any(not reply.error for reply in replies), f"all replies are errors: {replies[0].error}"
    assert _said(make().write(requests)) == _said(replies), (
        "equal requests must get equal replies from a fresh designer"
    )
    _check_resumed(make, requests, replies)


def _requests(settings: Sequence[Setting]) -> list[DesignRequest]:
    """Three requests a setting: a plain one, one with a document, and a repair."""
    requests: list[DesignRequest] = []
    for place, setting in enumerate(settings):
        for number in range(3):
            tool_use = setting == "tool_use"
            requests.append(
                DesignRequest(
                    key=f"design/0/{place}/{number}",
                    setting=setting,
                    skill=_SKILLS[setting],
                    difficulty="medium",
                    seed=100 * place + number,
                    document=_DOCUMENT if number else None,
                    domain="banking" if tool_use else "",
                    variant="execute" if tool_use else "",
                    num_instructions=3 if tool_use else 0,
                    repair=Repair("An empty reply.", ("extract: no code",)) if number == 2 else None,
                )
            )
    return requests


def _check_reply(reply: DesignReply) -> None:
    key = reply.request.key
    assert isinstance(reply.text, str), f"the text of the reply to {key} must be text, got {reply.text!r}"
    assert isinstance(reply.error, str), f"the error of the reply to {key} must be text, got {reply.error!r}"
    assert reply.text.strip() or reply.error, f"the reply to {key} has neither a text nor an error"
    origin = dict(reply.origin)
    assert len(origin) == len(reply.origin), f"the origin of the reply to {key} has a key twice: {reply.origin!r}"
    check_origin(origin)


def _said(replies: Sequence[DesignReply]) -> list[tuple[str, bool, str]]:
    return [(reply.text, bool(reply.error), reply.program.digest if reply.program else "") for reply in replies]


def _check_resumed(
    make: Callable[[], Designer], requests: Sequence[DesignRequest], replies: Sequence[DesignReply]
) -> None:
    """A fresh designer that was told the first half goes on with the second half as it was."""
    half = len(requests) // 2
    resumed = make()
    if isinstance(resumed, Recalls):
        for reply in replies[:half]:
            resumed.seen(reply)
    found = _said(resumed.write(requests[half:]))
    assert found == _said(replies[half:]), (
        "after a restart a designer must go on as before; one whose replies depend on earlier ones needs a method "
        "seen(reply), which is told them"
    )
