from __future__ import annotations

from pathlib import Path

import pytest
from games import guess

from spade_gym.rollout.player_settings import PlayerSettings


def test_the_defaults_are_those_of_the_method() -> None:
    settings = PlayerSettings()
    assert (settings.max_turns, settings.sampling.max_tokens, settings.total_tokens) == (25, 8192, 32768)
    assert (settings.sampling.temperature, settings.sampling.top_p, settings.sampling.top_k) == (0.6, 0.95, 20)
    assert not settings.wrap_every_turn


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"max_turns": 0}, "max_turns must be a whole number from 1 on, got 0"),
        ({"max_turns": True}, "max_turns"),
        ({"total_tokens": 1.5}, "total_tokens"),
        ({"context_tokens": -1}, "context_tokens"),
        ({"reward": "mean"}, "reward must be one of manifest, sum, last, got 'mean'"),
        ({"win_threshold": float("nan")}, "win_threshold"),
        ({"win_threshold": 1.5}, "win_threshold"),
        ({"example": True, "prompts": Path()}, "not both"),
    ],
)
def test_settings_with_which_nothing_could_be_played_are_refused(setting: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        PlayerSettings(**setting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "manifest", "terminated", "expected"),
    [
        ("manifest", "sum", True, 0.75),
        ("manifest", "last", True, 0.25),
        ("manifest", "last", False, 0.0),
        ("sum", "last", False, 0.75),
        ("last", "sum", True, 0.25),
        ("last", "sum", False, 0.0),
    ],
)
def test_the_return_follows_the_manifest_or_the_recipe(
    rule: str, manifest: str, terminated: bool, expected: float
) -> None:
    settings = PlayerSettings(reward=rule)  # type: ignore[arg-type]
    assert settings.return_of(guess(reward=manifest), [0.5, 0.25], terminated=terminated) == expected


def test_returns_are_clipped() -> None:
    assert PlayerSettings().return_of(guess(), [0.9, 0.9], terminated=False) == 1.0
    assert PlayerSettings().return_of(guess(), [-0.9, -0.9], terminated=True) == -1.0
