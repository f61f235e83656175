from __future__ import annotations

from pathlib import Path

import pytest

from spade_gym.selfplay.plan import plan_of
from spade_gym.selfplay.recipe import Recipe, differences
from spade_gym.selfplay.recipe_file import names, read_recipe
from spade_gym.selfplay.settings_table import RecipeError

TABLE = {  # method, section 7
    "paper-games-30b": (400, 24, 4, 16, 0.0, 16384, 4096, False),
    "paper-games-4b": (400, 24, 4, 16, 0.0, 16384, 4096, False),
    "paper-games-8b": (400, 24, 4, 16, 0.005, 20000, 4096, True),
    "paper-tools-30b": (400, 24, 8, 16, 0.005, 16384, 2048, False),
    "paper-tools-8b": (400, 24, 8, 16, 0.005, 20000, 2048, True),
    "paper-tools-4b": (500, 16, 32, 4, 0.005, 16384, 512, False),
}


@pytest.mark.parametrize("name", TABLE)
def test_paper_recipes_hold_the_published_constants(name: str) -> None:
    recipe = read_recipe(name)
    cycle, designer = recipe.cycle, recipe.designer
    assert TABLE[name] == (
        cycle.rollouts, cycle.environments, cycle.regenerate_every, cycle.hint_plays, recipe.trainer.options["kl"],
        designer.max_tokens, recipe.hints.max_tokens, bool(designer.thinking),
    )  # fmt: skip
    assert cycle.plays == 16
    assert (recipe.reward.options["of"], recipe.reward.options["pairing"], recipe.reward.shrink) == (
        "return",
        "plain",
        False,
    )
    assert recipe.agent.reward == "last"
    assert designer.reset_gate == "all"
    sampling = recipe.agent.player().sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.6, 0.95, 20)
    assert (sampling.max_tokens, recipe.agent.total_tokens, recipe.agent.max_turns) == (8192, 32768, 25)


def test_every_shipped_recipe_can_be_read_and_planned() -> None:
    assert {"recorded-demo", "paper-games-4b", "ablation-no-memory"} <= set(names())
    for name in names():
        recipe = read_recipe(name)
        assert recipe.title
        assert plan_of(recipe).plain_plays > 0


ABLATIONS = {
    "no-memory": {"memory.use"},
    "no-corpus": {"designer.corpus"},
    "no-designer-training": {"designer.train"},
    "no-designer-training-no-memory": {"designer.train", "memory.use"},
    "learning-potential": {"reward.scorer", "reward.options"},
    "solve-rate": {"reward.scorer", "reward.options"},
    "two-skills": {"cycle.skills", "cycle.skills_per_regeneration"},
    "frozen-designer": {"models.designer", "designer.train"},
    "static-pool": {"designer.name", "designer.train"},
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_changes_what_it_names_and_nothing_else(name: str) -> None:
    changed = differences(read_recipe("paper-games-30b"), read_recipe(f"ablation-{name}"))
    assert set(changed) == ABLATIONS[name]


def test_settings_from_the_command_line() -> None:
    recipe = read_recipe("recorded-demo", ["cycle.rollouts=8", "designer.name=registry", "reward.options.low=0.2",
                                           "agent.context_tokens=none", "designer.corpus=none"])  # fmt: skip
    assert recipe.cycle.rollouts == 8
    assert recipe.designer.name == "registry"
    assert recipe.reward.options["low"] == 0.2
    assert recipe.agent.context_tokens is None
    assert recipe.designer.corpus == "none"


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("cycle.rollout=8", "did you mean 'rollouts'"),
        ("cycel.rollouts=8", "did you mean 'cycle'"),
        ("cycle.rollouts=0", "at least 1"),
        ("cycle.rollouts=many", "type int"),
        ("cycle.rollouts=true", "type int"),
        ("cycle.setting=chess", "'single_turn', 'multi_turn', 'tool_use'"),
        ("cycle.least_accepted=2", "from 0 to 1"),
        ("cycle.isolation=L9", "L3"),
        ("reward.scorer=regert", "one of"),
        ("agent.top_p=0", "top_p"),
        ("designer.difficulties=easy", "a list"),
        ("cycle.rollouts", "table.key=value"),
        ("cycle..rollouts=3", "table.key=value"),
        ("memory.use=1", "type bool"),
        ("memory.eviction=newest", "'oldest'"),
        ("cycle.pool=fixed", "fixed_programs"),
        ("title.x=3", "no table"),
    ],
)
def test_bad_settings_are_errors_that_teach(override: str, told: str) -> None:
    with pytest.raises(RecipeError) as error:
        read_recipe("recorded-demo", [override])
    assert told in str(error.value)


def test_unknown_recipes_and_bad_files(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="did you mean 'recorded-demo'"):
        read_recipe("recorded-dmo")
    (tmp_path / "a.toml").write_text("title = ")
    with pytest.raises(RecipeError, match="no valid TOML"):
        read_recipe(str(tmp_path / "a.toml"))
    (tmp_path / "b.toml").write_text(f'base = "{tmp_path / "b.toml"}"\n')
    with pytest.raises(RecipeError, match="no circle"):
        read_recipe(str(tmp_path / "b.toml"))


def test_a_recipe_goes_over_its_base_table_by_table(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('base = "recorded-demo"\n[cycle]\nplays = 2\n')
    recipe = read_recipe(str(file))
    assert differences(read_recipe("recorded-demo"), recipe) == {"cycle.plays": (4, 2)}
    assert recipe.digest != read_recipe("recorded-demo").digest


def test_the_default_recipe_is_the_papers_games_run_with_our_reset_gate_and_returns() -> None:
    assert set(differences(Recipe(), read_recipe("paper-games-30b"))) == {
        "agent.reward", "agent.thinking", "designer.reset_gate", "designer.thinking", "hints.thinking", "models.agent",
        "reward.options", "trainer.name", "trainer.options",
    }  # fmt: skip
