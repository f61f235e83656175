from __future__ import annotations

import json

import pytest
from validation.flawed_programs import DESK, FLAWED, SOUND, SUM, VAULT, edited, without_solution

from spade_gym.errors import SandboxError
from spade_gym.programs.reply import program_from_source
from spade_gym.sandbox.base import Limits
from spade_gym.validation import policies
from spade_gym.validation import validate as module
from spade_gym.validation.finding import Verdict
from spade_gym.validation.validate import CHECKS, Check, validate, validate_reply

LIMITS = Limits(step_seconds=1.0, load_seconds=2.0)


def verdict_on(source: str) -> Verdict:
    return validate(program_from_source(source), limits=LIMITS)


def checks_of(verdict: Verdict) -> list[str]:
    return [finding.check for finding in verdict.failures]


@pytest.mark.parametrize(("source", "check"), [row[1:] for row in FLAWED], ids=[row[0] for row in FLAWED])
def test_a_flawed_program_is_rejected_by_the_check_that_names_its_flaw(source: str, check: str):
    verdict = verdict_on(source)
    assert not verdict.accepted
    assert check in checks_of(verdict)
    assert not [finding for finding in verdict.failures if "not checked" in finding.message]


@pytest.mark.parametrize(("source", "note"), [row[1:] for row in SOUND], ids=[row[0] for row in SOUND])
def test_a_sound_program_is_accepted_and_its_oddities_are_noted(source: str, note: str):
    verdict = verdict_on(source)
    assert verdict.failures == ()
    assert verdict.accepted
    assert any(note in finding.message for finding in verdict.warnings) or not note


@pytest.mark.parametrize("source", [SUM, VAULT, DESK], ids=["single turn", "multi turn", "tool use"])
def test_a_verdict_comes_with_digest_class_and_the_turn_limit_and_is_json(source: str):
    verdict = verdict_on(source)
    assert verdict.program is not None
    assert verdict.digest == verdict.program.digest
    assert verdict.class_name == verdict.program.manifest.class_name
    assert verdict.program.manifest.max_turns == {SUM: 1, VAULT: 8, DESK: 10}[source]
    table = json.loads(json.dumps(verdict.to_json()))
    assert table["accepted"] is True
    assert list(table) == [
        "file", "accepted", "digest", "class_name", "repairs", "adapters", "failures", "warnings", "seconds",
    ]  # fmt: skip


def test_two_runs_give_the_same_findings():
    source = edited(VAULT, ("reward, note = 0.0,", "reward, note = -0.1,"))
    one, other = verdict_on(source), verdict_on(source)
    assert one.failures == other.failures
    assert one.warnings == other.warnings


def test_evidence_shows_seed_actions_and_rewards():
    source = edited(SUM, ("float(good)", "float(good) - 0.25"))
    (finding, *_) = [finding for finding in verdict_on(source).failures if finding.check == "reward"]
    assert finding.evidence["rewards"] == [-0.25]
    assert finding.evidence["seed"] in range(125)
    assert len(finding.evidence["actions"]) == 1


def test_checks_stop_where_the_program_cannot_be_reset():
    verdict = verdict_on(edited(SUM, ("rng = random.Random(seed)", "raise ValueError('no game today')")))
    assert checks_of(verdict) == ["smoke"]
    assert "no game today" in verdict.failures[0].message


def test_a_check_that_breaks_down_rejects(monkeypatch: pytest.MonkeyPatch):
    def broken(context: object) -> list[object]:
        raise KeyError("a mistake in the check")

    monkeypatch.setattr(module, "CHECKS", (*CHECKS[:2], Check("broken", broken)))
    verdict = verdict_on(SUM)
    assert checks_of(verdict) == ["broken"]
    assert "not checked" in verdict.failures[0].message


def test_a_broken_sandbox_says_nothing_about_the_program(monkeypatch: pytest.MonkeyPatch):
    def broken(context: object) -> list[object]:
        raise SandboxError("no zygote")

    monkeypatch.setattr(module, "CHECKS", (Check("broken", broken),))
    with pytest.raises(SandboxError, match="no zygote"):
        verdict_on(SUM)


def test_programs_are_not_checked_inside_this_process():
    with pytest.raises(SandboxError, match="L1, L2 or L3"):
        validate(program_from_source(SUM), isolation="L0")


def test_a_program_that_hangs_all_the_time_is_not_probed_for_ever():
    source = edited(
        VAULT, ("        self.turn += 1\n", "        self.turn += 1\n        while True:\n            pass\n")
    )
    verdict = validate(program_from_source(source), limits=Limits(step_seconds=0.2, load_seconds=1.0))
    assert {"smoke", "availability"} <= set(checks_of(verdict))
    assert verdict.seconds < 20
    assert any("killed 3 times" in finding.message for finding in verdict.failures)


def test_a_command_that_hangs_is_reported_as_that_alone():
    source = edited(
        VAULT,
        (
            "        self.turn += 1\n",
            '        self.turn += 1\n        while "open 5" in action and 5 not in self.coins:\n            pass\n',
        ),
    )
    verdict = verdict_on(source)
    assert set(checks_of(verdict)) == {"availability"}


def test_a_few_wins_by_chance_are_not_confirmed(monkeypatch: pytest.MonkeyPatch):
    doors = edited(
        SUM,
        ("self.answer = self.a + self.b", "self.answer = 1 if seed < 8 else 2 + self.a % 19"),
        ("\\\\boxed{{number}}", "\\\\boxed{{1}} ... \\\\boxed{{20}}"),
    )
    assert verdict_on(doors).accepted
    monkeypatch.setattr(policies, "_CONFIRMING_SEEDS", range(20))
    assert checks_of(verdict_on(doors)) == ["trivial_policy"]


def test_policies_are_left_out_with_a_note_when_steps_take_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(policies, "_MAX_SECONDS", -1.0)
    verdict = verdict_on(SUM)
    assert verdict.accepted
    assert any("were tried" in finding.message for finding in verdict.warnings)


def test_the_papers_reset_gate_lets_a_criterion_pass_that_raises_on_some_seeds():
    # O-500 and above exist for some of the seeds only.
    raising = edited(
        DESK, ('s["orders"][order]["cancelled"]', 's["orders"][order if int(order[2:]) > 500 else "-"]["cancelled"]')
    )
    strict = validate(program_from_source(raising), limits=LIMITS)
    paper = validate(program_from_source(raising), limits=LIMITS, reset_gate="all")
    assert "reset_gate" in checks_of(strict)
    assert "reset_gate" not in checks_of(paper)


def test_a_reply_without_a_program_is_rejected_by_the_stage_that_failed():
    assert checks_of(validate_reply("I would rather not.", name="1.md")) == ["extract"]
    cut = "```python\n" + SUM[: SUM.index("solution")]
    assert checks_of(validate_reply(cut + "\n        x = (", name="2.md")) == ["syntax"]
    verdict = validate_reply("```python\nclass Nothing:\n    pass\n```", name="3.md")
    assert checks_of(verdict) == ["contract"]
    assert (verdict.file, verdict.accepted, verdict.program) == ("3.md", False, None)


def test_a_reply_with_a_program_goes_through_all_checks():
    verdict = validate_reply(f"Here it is.\n```python\n{SUM}```\nHave fun.", name="good.md", skill="Arithmetic")
    assert verdict.accepted
    assert verdict.file == "good.md"
    assert verdict.program is not None
    assert verdict.program.manifest.skill == "Arithmetic"


def test_a_missing_solution_is_noted_once():
    verdict = verdict_on(without_solution(VAULT))
    assert [finding.check for finding in verdict.warnings if "missing_solution" in finding.message] == ["solution"]
