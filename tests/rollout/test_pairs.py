from __future__ import annotations

from spade_gym.curriculum.task import Arm
from spade_gym.rollout.pairs import Dropped, paired_out
from spade_gym.rollout.play import Play
from spade_gym.types import Status


def a_play(arm: Arm, number: int, *, digest: str = "d", seed: int = 7, status: Status = "ok") -> Play:
    return Play(
        key=f"play/0/{digest}/{arm}/{number}", digest=digest, seed=seed, arm=arm, total=0.0, won=False, length=1,
        status=status, fault="" if status == "ok" else f"{status}: why", ended="terminated", turns=(), samples=(),
        policy_version=0, prompt_tokens=0, completion_tokens=0, seconds=0.0,
    )  # fmt: skip


def test_a_fault_takes_its_counterpart_with_it() -> None:
    plays = [
        a_play("plain", 0), a_play("plain", 1, status="timeout"), a_play("plain", 2),
        a_play("hint", 0, status="env_error"), a_play("hint", 1), a_play("hint", 2),
    ]  # fmt: skip
    kept, dropped = paired_out(iter(plays))
    assert kept == [plays[2], plays[5]]
    assert dropped == [
        Dropped(plays[0].key, plays[3].key, "env_error", "env_error: why"),
        Dropped(plays[1].key, plays[1].key, "timeout", "timeout: why"),
        Dropped(plays[3].key, plays[3].key, "env_error", "env_error: why"),
        Dropped(plays[4].key, plays[1].key, "timeout", "timeout: why"),
    ]


def test_only_the_same_instance_and_repetition_of_the_same_program_is_a_counterpart() -> None:
    plays = [
        a_play("plain", 0, status="aborted"),
        a_play("hint", 0, digest="e"),
        a_play("hint", 0, seed=8),
        a_play("hint", 1),
    ]
    assert paired_out(plays).kept == plays[1:]


def test_both_faulty_are_each_their_own_cause_and_order_does_not_matter() -> None:
    plays = [a_play("hint", 0, status="timeout"), a_play("plain", 0, status="aborted")]
    assert [(item.key, item.cause, item.status) for item in paired_out(plays).dropped] == [
        (plays[0].key, plays[0].key, "timeout"),
        (plays[1].key, plays[1].key, "aborted"),
    ]
    assert {item.key for item in paired_out(plays[::-1]).dropped} == {play.key for play in plays}


def test_a_play_without_a_counterpart_counts_if_it_is_ok() -> None:
    plays = [a_play("plain", number) for number in range(4)] + [a_play("hint", 0), a_play("hint", 1, status="timeout")]
    kept, dropped = paired_out(plays)
    assert kept == [plays[0], plays[2], plays[3], plays[4]]
    assert [item.key for item in dropped] == [plays[1].key, plays[5].key]
