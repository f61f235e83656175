"""``python -m spade_trainers.skyrl_bridge.train spade.recipe=NAME KEY=VALUE …``: SkyRL, with programs to play.

``spade.recipe`` says how the agent plays and trains (``overrides.py``); everything else is SkyRL's and comes after it,
so it holds. ``spade.isolation`` chooses the programs' isolation. Needs SkyRL with its extra ``fsdp`` or ``megatron``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from spade_gym.errors import SpadeError
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.recipe_file import read_recipe
from spade_trainers.skyrl_bridge.advantages import register
from spade_trainers.skyrl_bridge.generator import SpadeGenerator
from spade_trainers.skyrl_bridge.overrides import overrides_of


class BridgeError(SpadeError):
    """SkyRL is missing, or an argument is."""


def parted(arguments: Sequence[str]) -> tuple[Recipe, str | None, list[str]]:
    """Return the recipe, the isolation and SkyRL's own arguments.

    Args:
        arguments: ``key=value`` texts.

    Raises:
        BridgeError: None of them names a recipe, or one beginning with ``spade.`` is unknown.
        RecipeError: There is no such recipe.
    """
    own = dict(text.removeprefix("spade.").partition("=")[::2] for text in arguments if text.startswith("spade."))
    if unknown := sorted(set(own) - {"recipe", "isolation"}):
        raise BridgeError(f"there is no argument spade.{unknown[0]}; there are spade.recipe and spade.isolation")
    if "recipe" not in own:
        raise BridgeError("say how the agent plays: spade.recipe=paper-games-8b, or a .toml file")
    recipe = read_recipe(own["recipe"])
    rest = [text for text in arguments if not text.startswith(("spade.", "trainer.override_entrypoint="))]
    return recipe, own.get("isolation"), [*overrides_of(recipe), *rest]


def main() -> None:
    """Train with SkyRL; also what its ``trainer.override_entrypoint`` may name."""
    recipe, isolation, arguments = parted(sys.argv[1:])
    try:
        import ray
        from skyrl.train.config import SkyRLTrainConfig
        from skyrl.train.utils import validate_cfg
        from skyrl.train.utils.utils import initialize_ray
    except ImportError as error:
        raise BridgeError(f"this needs SkyRL ({error}): pip install 'skyrl[fsdp]'") from error
    register()
    config = SkyRLTrainConfig.from_cli_overrides(arguments)
    validate_cfg(config)
    initialize_ray(config)
    ray.get(ray.remote(num_cpus=1)(train).remote(config, recipe, isolation))


def train(config: Any, recipe: Recipe, isolation: str | None) -> None:
    """Run an experiment of SkyRL with our generator, in a worker of Ray.

    Args:
        config: Of SkyRL.
        recipe: How the agent plays.
        isolation: Of the programs.
    """
    from skyrl.train.entrypoints.main_base import BasePPOExp

    register()

    class Experiment(BasePPOExp):  # type: ignore[misc,unused-ignore]
        def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> SpadeGenerator:
            return generator_of(cfg, tokenizer, inference_engine_client, recipe, isolation)

    Experiment(config).run()


def generator_of(config: Any, tokenizer: Any, client: Any, recipe: Recipe, isolation: str | None) -> SpadeGenerator:
    """Make the generator of a SkyRL configuration.

    Args:
        config: Of SkyRL.
        tokenizer: Of the policy.
        client: SkyRL's inference engines.
        recipe: How the agent plays.
        isolation: Of the programs.
    """
    from skyrl.backends.skyrl_train.inference_servers.utils import resolve_policy_model_name

    return SpadeGenerator(
        client,
        tokenizer,
        recipe.agent.player(),
        step_wise=bool(config.generator.step_wise_trajectories),
        model_name=resolve_policy_model_name(config),
        max_context=config.generator.max_input_length,
        isolation=isolation,
        max_sessions=recipe.cycle.max_sessions,
    )


if __name__ == "__main__":
    try:
        main()
    except SpadeError as error:
        sys.exit(f"error: {error}")
