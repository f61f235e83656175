from pathlib import Path

import pytest

from spade_gym.designer.corpus import open_corpus
from spade_gym.designer.prompting import Prompts
from spade_gym.plugins import PluginError
from spade_gym.prompt_folder import corpus_path, prompt_folder
from spade_gym.rollout.gameplay_prompt import read_templates


def test_no_name_means_the_shipped_prompts_and_others_are_paths() -> None:
    assert prompt_folder("", "designer") is None
    assert prompt_folder("my/prompts", "player") == Path("my/prompts")
    assert corpus_path("documents.jsonl") == Path("documents.jsonl")


def test_an_installed_package_brings_prompts_for_both_roles_and_documents() -> None:
    prompts = Prompts(prompt_folder("small", "designer"))
    assert prompts["hint_game"].fill(source="x = 1", observation="unused") == "hint\nx = 1"
    templates = read_templates(folder=prompt_folder("bare", "player"))
    assert templates["multi_turn"].around("at 1 2") == "at 1 2"
    assert len(open_corpus(corpus_path("small"))) == 20


def test_a_part_that_a_package_does_not_have_is_named() -> None:
    with pytest.raises(PluginError, match=r"'small' of spade-gym .* have no player"):
        prompt_folder("small", "player")
