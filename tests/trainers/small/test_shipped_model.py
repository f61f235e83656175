from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from spade_gym.designer.language_model_designer import LanguageModelDesigner
from spade_gym.designer.prompting import Prompts
from spade_gym.designer.request import DesignRequest, Document
from spade_gym.models.base import ModelError, Sampling
from spade_gym.models.open_model import open_model
from spade_gym.prompt_folder import prompt_folder
from spade_gym.selfplay.recipe_file import read_recipe
from spade_gym.validation.validate import validate_reply
from spade_trainers.small import model as small
from spade_trainers.small.suite import measure, suite_orders


@pytest.fixture(scope="module")
def warm_start():
    model = open_model("small")
    yield model
    model.close()


def test_the_shipped_weights_are_small() -> None:
    assert sum(path.stat().st_size for path in small.WEIGHTS.iterdir()) < 8 * 2**20


def test_damaged_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    monkeypatch.setattr(small, "WEIGHTS", tmp_path)
    with pytest.raises(ModelError, match="are damaged"):
        open_model("small")


def test_nothing_may_follow_the_name() -> None:
    with pytest.raises(ModelError, match="takes nothing after its name, got 'big'"):
        open_model("small:big")


def test_it_writes_programs_that_pass_every_check_and_differ(warm_start) -> None:
    designer = LanguageModelDesigner(
        warm_start, Sampling(400, 1.0, 1.0, 0), prompts=Prompts(prompt_folder("small", "designer"))
    )
    skills = ("Logical Deduction", "Pattern Recognition", "Spatial Reasoning", "Optimization")
    gems = Document("gems", "gems")
    replies = designer.write([
        DesignRequest(f"design/0/{n}/0", "multi_turn", skills[n % 4], "medium", n, document=gems) for n in range(24)
    ])  # fmt: skip
    verdicts = [validate_reply(reply.text, name="reply", setting="multi_turn") for reply in replies if reply.text]
    accepted = [verdict for verdict in verdicts if verdict.accepted]
    assert len(accepted) >= 12
    assert len({verdict.digest for verdict in accepted}) >= 12


def test_it_plays_short_lists_better_than_long_ones(warm_start) -> None:
    recipe = read_recipe("small")
    orders = suite_orders(["Logical Deduction"], programs=3, instances=8)
    found = measure(warm_start, orders, recipe.agent.player())
    assert Counter({name: tier.plays for name, tier in found.items()})["easy"] == 48
    assert found["easy"].rate > 0.7
    assert found["easy"].rate > found["medium"].rate > found["beyond"].rate
