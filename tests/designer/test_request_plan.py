from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade_gym.curriculum.memory import Memory
from spade_gym.curriculum.task import Outcome, Task
from spade_gym.designer.corpus import default_corpus
from spade_gym.designer.request import DesignReply, Example
from spade_gym.designer.request_plan import RequestSettings, repair_request, requests_for
from spade_gym.types import GAME_SKILLS, TOOL_SKILLS

GAMES = RequestSettings(setting="multi_turn", seed=3, num_environments=7)
TOOLS = RequestSettings(setting="tool_use", seed=3, num_environments=60)


def remember(memory: Memory, name: str, rates: tuple[float, float], **task: str) -> None:
    """Ten plays in each arm on the same seeds: (share won without the hint, with it)."""
    fields = {"kind": "program", "skill": GAME_SKILLS[0], **task}
    slot = memory.add(Task(value={"program": name}, **fields), now=0).slot  # type: ignore[arg-type]
    for seed in range(10):
        for arm, share in zip(("plain", "hint"), rates, strict=True):
            won = seed < round(10 * share)
            memory.played(slot, Outcome(0, seed, float(won), won), arm, window=0)  # type: ignore[arg-type]


def test_skills_rotate_over_environments_and_regenerations() -> None:
    first, second = (requests_for(epoch, GAMES, corpus=default_corpus("multi_turn")) for epoch in (0, 1))
    assert [request.skill for request in first] == [GAME_SKILLS[place] for place in (0, 1, 2, 0, 1, 2, 0)]
    assert [request.skill for request in second] == [GAME_SKILLS[place] for place in (3, 4, 5, 3, 4, 5, 3)]
    assert [request.key for request in second][:2] == ["design/1/0/0", "design/1/1/0"]
    assert {(request.domain, request.variant, request.num_instructions) for request in first} == {("", "", 0)}


def test_two_skills_are_one_setting() -> None:
    settings = replace(GAMES, skills=GAME_SKILLS[:2], skills_per_regeneration=2, num_environments=4)
    assert [request.skill for request in requests_for(5, settings, corpus=None)] == [*GAME_SKILLS[:2]] * 2


def test_tool_use_requests_draw_domain_variant_and_instructions() -> None:
    requests = requests_for(0, TOOLS, corpus=default_corpus("tool_use"))
    assert {request.skill for request in requests} == set(TOOL_SKILLS[:3])
    assert {request.num_instructions for request in requests} == {3, 4, 5}
    assert len({request.domain for request in requests}) == 10
    variants = Counter(request.variant for request in requests)
    assert variants.most_common(1)[0][0] == "execute"
    assert len(variants) == 4
    single = replace(TOOLS, min_instructions=1, max_instructions=1)
    assert {request.num_instructions for request in requests_for(0, single, corpus=None)} == {1}


def test_each_attempt_has_a_fresh_document_and_seed_and_nothing_else() -> None:
    corpus = default_corpus("tool_use")
    attempts = [requests_for(2, TOOLS, corpus=corpus, attempt=number, indices=[4, 9]) for number in range(5)]
    for mine in zip(*attempts, strict=True):
        documents = [request.document.id for request in mine if request.document]
        assert len(set(documents)) >= 3
        assert len({request.seed for request in mine}) == 5
        same = {(r.skill, r.difficulty, r.domain, r.variant, r.num_instructions) for r in mine}
        assert len(same) == 1
    assert [request.key for request in attempts[3]] == ["design/2/4/3", "design/2/9/3"]


@given(st.lists(st.integers(0, 6), unique=True, min_size=1), st.integers(0, 50), st.integers(0, 4))
def test_asking_for_some_gives_what_asking_for_all_gives(indices: list[int], epoch: int, attempt: int) -> None:
    corpus = default_corpus("multi_turn")
    every = requests_for(epoch, GAMES, corpus=corpus, attempt=attempt)
    some = requests_for(epoch, GAMES, corpus=corpus, attempt=attempt, indices=indices)
    assert some == [every[index] for index in indices]


def test_another_seed_gives_other_documents() -> None:
    corpus = default_corpus("multi_turn")
    runs = [requests_for(0, replace(GAMES, seed=seed), corpus=corpus) for seed in range(4)]
    documents = [[request.document.id for request in run if request.document] for run in runs]
    assert all(left != right for left, right in pairwise(documents))


def test_documents_are_cut_to_the_limit_of_the_setting() -> None:
    assert (GAMES.words, TOOLS.words) == (6_000, 4_000)
    (request,) = requests_for(0, replace(GAMES, max_words=12, num_environments=1), corpus=default_corpus("multi_turn"))
    assert request.document is not None
    assert len(request.document.text.split()) == 12


def test_examples_come_from_the_memory_with_their_numbers() -> None:
    memory = Memory(50)
    for name, rates in {"even": (0.5, 0.9), "edge": (0.2, 0.5), "easy": (1.0, 1.0)}.items():
        remember(memory, name, rates)
    remember(memory, "other", (0.5, 1.0), skill=GAME_SKILLS[1])
    sources = {name: f"# {name}" for name in ("even", "edge", "easy", "other")}
    requests = requests_for(0, GAMES, corpus=None, memory=memory, source_of=sources.get, now=5)
    shown = {example.source: (example.win_rate, round(example.regret or 0.0, 9)) for example in requests[0].positives}
    assert shown == {"# even": (0.5, 0.4), "# edge": (0.2, 0.3)}
    assert requests[0].negative == Example("# easy", 1.0, 0.0)
    assert requests[1].positives == (Example("# other", 0.5, 0.5),)
    assert (requests[2].positives, requests[2].negative) == ((), None)


def test_records_without_a_source_and_other_tasks_are_left_out() -> None:
    memory = Memory(50)
    remember(memory, "lost", (0.5, 0.9))
    remember(memory, "maze", (0.5, 0.9), kind="make")
    (request,) = requests_for(
        0, replace(GAMES, num_environments=1), corpus=None, memory=memory, source_of={"maze": "# maze"}.get
    )
    assert request.positives == ()
    with pytest.raises(ValueError, match="need source_of"):
        requests_for(0, GAMES, corpus=None, memory=memory)


def test_a_repair_keeps_the_request_and_shows_reply_and_reasons() -> None:
    (request,) = requests_for(1, replace(GAMES, num_environments=1), corpus=default_corpus("multi_turn"))
    reply = DesignReply(request, "x" * 70_000)
    repair = repair_request(reply, ["raises\non line 3", "b" * 900], attempt=1)
    assert (repair.key, repair.document, repair.skill) == ("design/1/0/1", request.document, request.skill)
    assert repair.seed != request.seed
    assert repair.repair is not None
    assert len(repair.repair.reply) == 60_000
    assert repair.repair.reasons == ("raises on line 3", "b" * 600)
    with pytest.raises(ValueError, match="needs a reply with text and a reason"):
        repair_request(DesignReply(request, " "), ["why"], attempt=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"setting": "maze"}, "setting must be one of"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"num_environments": 0}, "num_environments must be at least 1"),
        ({"skills": ("Cooking",)}, "'Cooking' is no skill"),
        ({"skills": GAME_SKILLS[:2]}, "skills_per_regeneration must be from 1 to the number of skills, 2, got 3"),
        ({"difficulties": ("extreme",)}, "difficulties must be some of"),
        ({"min_instructions": 4, "max_instructions": 3}, "in order"),
        ({"max_words": 0}, "max_words must be at least 1"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RequestSettings(**{"setting": "multi_turn", **settings})  # type: ignore[arg-type]


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="indices must be from 0 to 6, got 7"):
        requests_for(0, GAMES, corpus=None, indices=[7])
    with pytest.raises(ValueError, match="attempt must be 0 or more"):
        requests_for(0, GAMES, corpus=None, attempt=-1)
