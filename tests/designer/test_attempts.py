from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence

import pytest
from design_requests import ScriptedDesigner, game, make_request
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_gym.designer.ask import Answer
from spade_gym.designer.attempt import Attempt
from spade_gym.designer.attempts import Design, Rules, design
from spade_gym.designer.diversity import Diversity
from spade_gym.designer.funnel import funnel
from spade_gym.designer.recorded import RecordedDesigner, RecordedReply, shipped_replies
from spade_gym.designer.request import DesignerError, DesignerOutage, DesignReply, DesignRequest, Document
from spade_gym.designer.screen import Screening
from spade_gym.errors import SandboxError
from spade_gym.programs.program import Program
from spade_gym.validation.finding import Verdict, failure, warning
from spade_gym.validation.validate import validate


def judge(program: Program) -> Verdict:
    """Accept programs unless their name starts with Bad."""
    bad = program.name.startswith("Bad")
    failures = (failure("solution", "it does not win\non any seed"),) if bad else ()
    notes = (warning("repair", "x"),)
    return Verdict(program.name, not bad, program.digest, program.name, (), (), failures, notes, 0.5, program)


def again(first: DesignRequest, attempt: int, latest: Attempt) -> DesignRequest:
    key = f"{first.key.rpartition('/')[0]}/{attempt}"
    return dataclasses.replace(first, key=key, seed=first.seed + attempt, document=Document(f"doc-{attempt}", "text"))


def requests(count: int) -> list[DesignRequest]:
    return [make_request(f"design/0/{number}/0", seed=number) for number in range(count)]


def outcomes(designs: Sequence[Design]) -> list[list[str]]:
    return [[attempt.outcome for attempt in item.attempts] for item in designs]


def place(request: DesignRequest) -> tuple[int, int]:
    _, _, index, attempt = request.key.split("/")
    return int(index), int(attempt)


def test_all_that_is_missing_is_asked_for_at_once_and_each_way_ends_for_itself():
    def say(request: DesignRequest) -> str | DesignReply:
        index, attempt = place(request)
        if index == 1 and attempt == 0:
            return DesignReply(request, game("Cut"), error="cut off after 10 tokens")
        if index == 1 and attempt == 1:
            return "I would rather not."
        if index == 2:
            return game(f"Bad{attempt}")
        return game(f"Good{index}")

    designer = ScriptedDesigner(say)
    found = design(designer, requests(3), again, judge)
    assert designer.rounds == [
        ["design/0/0/0", "design/0/1/0", "design/0/2/0"],
        ["design/0/1/1", "design/0/2/1"],
        ["design/0/1/2", "design/0/2/2"],
        ["design/0/2/3"],
        ["design/0/2/4"],
    ]
    assert outcomes(found) == [["accepted"], ["no_reply", "unread", "accepted"], ["rejected"] * 5]
    assert [item.program.name if item.program else None for item in found] == ["Good0", "Good1", None]
    assert found[1].attempts[0].reasons == ("reply: cut off after 10 tokens",)
    assert found[2].attempts[4].reasons == ("solution: it does not win on any seed",)
    assert found[2].attempts[4].request.document == Document("doc-4", "text")
    assert found[0].program.manifest.origin == {"kind": "designer", "request": "design/0/0/0"}
    assert (found[0].program.manifest.skill, found[0].program.manifest.difficulty) == ("Optimization", "easy")


def test_a_rejected_reply_is_sent_back_with_its_reasons_before_a_fresh_one_is_asked_for():
    asked: list[DesignRequest] = []

    def say(request: DesignRequest) -> str:
        asked.append(request)
        return game("Good" if len(asked) == 4 else f"Bad{len(asked)}")

    (found,) = design(ScriptedDesigner(say), requests(1), again, judge, rules=Rules(max_attempts=2, max_repairs=2))
    assert [request.key for request in asked] == [f"design/0/0/{number}" for number in range(4)]
    assert [request.repair is not None for request in asked] == [False, True, True, False]
    assert asked[2].repair.reply == game("Bad2")
    assert asked[2].repair.reasons == ("solution: it does not win on any seed",)
    assert found.program is not None


def test_repetitions_are_refused_and_never_sent_back():
    diversity = Diversity()
    shared = game("Same")
    rules = Rules(max_attempts=2, max_repairs=1, jobs=2)
    first = design(
        ScriptedDesigner(lambda request: shared), requests(2), again, judge, rules=rules, diversity=diversity
    )
    assert outcomes(first) == [["accepted"], ["duplicate", "duplicate"]]
    assert first[1].attempts[0].failures[0].check == "diversity"
    judged: list[str] = []

    def counting(program: Program) -> Verdict:
        judged.append(program.digest)
        return judge(program)

    second = design(
        ScriptedDesigner(lambda request: shared), requests(1), again, counting, rules=rules, diversity=diversity
    )
    assert outcomes(second) == [["duplicate", "duplicate"]]
    assert judged == []
    allowed = Rules(max_attempts=1, refuse=frozenset())
    third = design(
        ScriptedDesigner(lambda request: shared), requests(1), again, judge, rules=allowed, diversity=diversity
    )
    assert outcomes(third) == [["accepted"]]
    assert third[0].attempts[0].notices[0].kind == "duplicate"


class Only:
    """A screen that keeps the programs of given names and says nothing of others."""

    def __init__(self, *names: str) -> None:
        self.asked: list[list[str]] = []
        self._names = names

    def examine(self, programs: Sequence[Program]) -> list[Screening]:
        self.asked.append([program.name for program in programs])
        return [
            Screening(program.digest, "keep", "")
            if program.name in self._names
            else Screening(program.digest, "reject", "unreachable")
            for program in programs
            if program.name != "Silent"
        ]


def test_the_screen_sees_tool_use_programs_that_passed_and_silence_refuses():
    def say(request: DesignRequest) -> str:
        return game({0: "Kept", 1: "Refused", 2: "Silent", 3: "Bad", 4: "Game"}[place(request)[0]])

    asked = [dataclasses.replace(request, setting="tool_use") for request in requests(4)]
    asked.append(make_request("design/0/4/0"))
    screen = Only("Kept")
    found = design(ScriptedDesigner(say), asked, again, judge, rules=Rules(max_attempts=1), screen=screen)
    assert screen.asked == [["Kept", "Refused", "Silent"]]
    assert outcomes(found) == [["accepted"], ["screened"], ["screened"], ["rejected"], ["accepted"]]
    assert found[1].attempts[0].reasons == ("screen: reject: unreachable",)
    assert found[2].attempts[0].reasons == ("screen: not_screened: no answer",)


class Memo:
    """A journal that is killed after some entries, and keeps what it had, as JSON where it can."""

    def __init__(self, life: int) -> None:
        self.life = life
        self.replies: dict[str, DesignReply] = {}
        self.attempts: dict[str, tuple[str, Program | None]] = {}

    def known(self, request: DesignRequest) -> Attempt | DesignReply | None:
        reply = self.replies.get(request.key)
        if reply is None or request.key not in self.attempts:
            return reply
        data, program = self.attempts[request.key]
        return Attempt.from_json(json.loads(data), reply, program)

    def keep(self, item: Attempt | DesignReply) -> None:
        if self.life == 0:
            raise KeyboardInterrupt
        self.life -= 1
        if isinstance(item, Attempt):
            assert item.request.key not in self.attempts, "judged twice"
            self.attempts[item.request.key] = (json.dumps(item.to_json()), item.program)
        else:
            assert item.request.key not in self.replies, "asked twice"
            self.replies[item.request.key] = item


def whole(designs: Sequence[Design]) -> list[list[dict[str, object]]]:
    return [[{**attempt.to_json(), "text": attempt.reply.text} for attempt in item.attempts] for item in designs]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=4))
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_been(lives: list[int]):
    def judged(program: Program) -> Verdict:
        return judge(program.with_manifest(name="Bad" if int(program.digest, 16) % 3 else "Good"))

    texts = [game(f"Game{number}", number=number // 2) for number in range(20)] + ["no program"] * 5

    def make() -> RecordedDesigner:
        return RecordedDesigner(RecordedReply(f"{place:02}", text, "multi_turn") for place, text in enumerate(texts))

    uninterrupted = Diversity()
    expected = design(make(), requests(6), again, judged, diversity=uninterrupted)
    journal = Memo(0)
    for life in lives:
        journal.life = life
        try:
            design(make(), requests(6), again, judged, journal=journal)
        except KeyboardInterrupt:
            continue
    journal.life = -1
    resumed = Diversity()
    found = design(make(), requests(6), again, judged, journal=journal, diversity=resumed)
    assert whole(found) == whole(expected)
    assert resumed.state_dict() == uninterrupted.state_dict()


def test_results_do_not_depend_on_which_check_is_done_first():
    def slow(program: Program) -> Verdict:
        time.sleep(0.05 if program.name == "Good0" else 0.0)
        return judge(program)

    kept: list[str] = []

    class Order:
        def known(self, request: DesignRequest) -> None:
            return None

        def keep(self, item: Attempt | DesignReply) -> None:
            kept.append(f"{type(item).__name__} {item.request.key[-3]}")

    designer = ScriptedDesigner(lambda request: game(f"Good{place(request)[0]}"))
    design(designer, requests(3), again, slow, rules=Rules(jobs=3), journal=Order())
    assert kept == [f"{kind} {number}" for kind in ("DesignReply", "Attempt") for number in range(3)]


@pytest.mark.parametrize(("named", "expected"), [("doc", ["document"]), ("another", [])])
def test_documents_are_compared_only_with_programs_that_are_grounded_in_them(named: str, expected: list[str]):
    text = "the tide sets every boat off its course and the pilot must correct for it with the rudder all day long"

    def say(request: DesignRequest) -> DesignReply:
        return DesignReply(request, game("Tide", f'self.text = "{text}"'), origin=(("document", named),))

    (found,) = design(ScriptedDesigner(say), [make_request(document=Document("doc", text))], again, judge)
    assert [notice.kind for notice in found.attempts[0].notices] == expected


def test_broken_designers_and_sandboxes_raise():
    class Lazy:
        name = "lazy"

        def write(self, requests: Sequence[DesignRequest]) -> list[DesignReply]:
            return [DesignReply(request, "x") for request in requests[1:]]

    def broken(program: Program) -> Verdict:
        raise SandboxError("no sandbox")

    with pytest.raises(DesignerError, match="'lazy' must answer each of 2 requests"):
        design(Lazy(), requests(2), again, judge)
    with pytest.raises(SandboxError):
        design(ScriptedDesigner(lambda request: game("Good")), requests(1), again, broken, rules=Rules(jobs=2))
    with pytest.raises(DesignerError, match="have the key 'design/0/0/0'"):
        design(ScriptedDesigner(lambda request: "x"), requests(1), lambda first, attempt, latest: first, judge)


@pytest.mark.parametrize("told", [{"hint": "\ud800"}, {"origin": (("kind", "\ud800"),)}])
def test_what_a_designer_says_about_its_program_may_be_unusable(told: dict[str, object]):
    designer = ScriptedDesigner(lambda request: dataclasses.replace(DesignReply(request, game("Fine")), **told))
    (made,) = design(designer, requests(1), again, judge, rules=Rules(max_attempts=2))
    assert [attempt.outcome for attempt in made.attempts] == ["unread", "unread"]
    assert made.attempts[0].failures[0].check == "manifest"


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"max_repairs": -1}, {"jobs": 0}])
def test_rules_out_of_range_are_refused(wrong: dict[str, int]):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Rules(**wrong)


def test_recorded_replies_pass_the_real_checks_or_are_followed_by_others():
    wanted = ("mortar_range.md", "sieve_count.md")
    replies = [reply for reply in shipped_replies() if reply.file in wanted]
    asked = [make_request(skill="Mathematical Reasoning")]
    (found,) = design(RecordedDesigner(replies), asked, again, validate)
    assert outcomes([found]) == [["rejected", "accepted"]]
    assert found.attempts[0].failures[0].check == "determinism"
    assert found.program.name == "SieveCount"
    assert (found.program.setting, found.program.manifest.origin["document"]) == ("single_turn", "math-004")
    counts = funnel(found.attempts)
    assert (counts.asked, counts.parsed, counts.executable, counts.repaired, counts.accepted) == (2, 2, 2, 1, 1)
    assert counts.why_not == {"determinism": 1}


def failed(request: DesignRequest) -> DesignReply:
    return DesignReply(request, "", error="the model failed: the server is gone", outage=True)


def test_a_model_that_fails_most_of_the_time_ends_the_round_and_what_it_did_answer_is_kept():
    def say(request: DesignRequest) -> str | DesignReply:
        return game("Good0") if place(request)[0] == 0 else failed(request)

    journal = Memo(-1)
    message = "2 of 3 replies failed because the model did, more than half; the last reason: the model failed: the ser"
    with pytest.raises(DesignerOutage, match=message):
        design(ScriptedDesigner(say), requests(3), again, judge, journal=journal)
    assert list(journal.replies) == ["design/0/0/0"]
    resumed = ScriptedDesigner(lambda request: game(f"Good{place(request)[0]}"))
    found = design(resumed, requests(3), again, judge, journal=journal)
    assert resumed.rounds == [["design/0/1/0", "design/0/2/0"]]
    assert outcomes(found) == [["accepted"]] * 3


def test_few_failures_of_the_model_cost_an_attempt_that_is_not_kept():
    def say(request: DesignRequest) -> str | DesignReply:
        return failed(request) if request.key == "design/0/1/0" else game(f"Good{place(request)[0]}")

    journal = Memo(-1)
    found = design(ScriptedDesigner(say), requests(2), again, judge, journal=journal)  # one of two: not more than half
    assert outcomes(found) == [["accepted"], ["no_reply", "accepted"]]
    assert [attempt.outage for attempt in found[1].attempts] == [True, False]
    assert sorted(journal.replies) == sorted(journal.attempts) == ["design/0/0/0", "design/0/1/1"]


class Down:
    """A screen whose model fails for the programs of given names, until it is up again."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def examine(self, programs: Sequence[Program]) -> list[Screening]:
        answer = Answer("", "the model failed: gone", outage=True)
        return [
            Screening(program.digest, "not_screened", answer.error, (answer,))
            if program.name in self.names
            else Screening(program.digest, "keep", "")
            for program in programs
        ]


def test_programs_that_the_screen_could_not_look_at_are_neither_kept_nor_sent_back():
    asked = [dataclasses.replace(request, setting="tool_use") for request in requests(2)]
    designer = ScriptedDesigner(lambda request: game(f"Good{place(request)[0]}", number=place(request)[1] + 3))
    journal, screen, rules = Memo(-1), Down("Good1"), Rules(max_attempts=1, max_repairs=1)
    found = design(designer, asked, again, judge, rules=rules, screen=screen, journal=journal)
    assert outcomes(found) == [["accepted"], ["screened"]]
    assert (list(journal.attempts), sorted(journal.replies)) == (["design/0/0/0"], ["design/0/0/0", "design/0/1/0"])
    with pytest.raises(DesignerOutage, match=r"1 of 1 screenings failed .* the last reason: the model failed: gone"):
        design(designer, asked, again, judge, rules=rules, screen=screen, journal=journal)
    screen.names = ()
    found = design(designer, asked, again, judge, rules=rules, screen=screen, journal=journal)
    assert outcomes(found) == [["accepted"], ["accepted"]]
    assert designer.rounds == [["design/0/0/0", "design/0/1/0"]]
