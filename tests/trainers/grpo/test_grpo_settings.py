from __future__ import annotations

import pytest

from spade_gym.selfplay.recipe_file import read_recipe
from spade_gym.selfplay.settings_table import RecipeError
from spade_trainers.grpo.settings import GrpoSettings


def test_the_defaults_are_the_method_s():
    settings = GrpoSettings()
    assert (settings.learning_rate, settings.betas, settings.weight_decay) == (1e-6, (0.9, 0.98), 0.1)
    assert (settings.clip_low, settings.clip_high, settings.weight_cap) == (0.2, 0.28, 2.0)
    assert (settings.kl, settings.entropy, settings.aggregation, settings.num_steps) == (0.0, 0.0, "group", 1)


@pytest.mark.parametrize("name", ["paper-games-30b", "paper-games-8b", "paper-tools-4b"])
def test_the_options_of_the_paper_recipes_are_understood(name):
    settings = GrpoSettings.read(read_recipe(name).trainer.options)
    assert settings.kl == (0.0 if "30b" in name else 0.005)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rat": 1e-5}, "did you mean 'learning_rate'"),
        ({"learning_rate": 0.0}, "learning_rate must be greater than 0"),
        ({"clip_low": -0.1}, "clip_low must be at least 0"),
        ({"clip_high": float("nan")}, "clip_high must be a finite number"),
        ({"betas": [0.9]}, "betas must be two numbers"),
        ({"betas": [0.9, 1.0]}, "betas must be two numbers"),
        ({"aggregation": "mean"}, "aggregation must be one of 'token', 'sequence', 'fixed', 'group'"),
        ({"token_budget": 0}, "token_budget must be a whole number of at least 1"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"kl": -1.0}, "kl must be at least 0"),
    ],
)
def test_what_means_nothing_is_refused(options, message):
    with pytest.raises(RecipeError, match=message):
        GrpoSettings.read(options)
