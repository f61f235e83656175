from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from models.scripted_model import ScriptedModel
from selfplay.small_runs import small_recipe, small_run

from spade_gym.evaluation.evaluate import evaluate
from spade_gym.evaluation.subject import initial_of, is_run, kept_subject, subject_of
from spade_gym.evaluation.suite import SuiteError
from spade_gym.selfplay.recipe import AgentSettings
from spade_gym.selfplay.selfplay import selfplay


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    with small_run(folder / "run", small_recipe(folder)) as run:
        selfplay(run)
    for checkpoint in (folder / "run" / "checkpoints").iterdir():
        (checkpoint / "config.json").write_text("{}")
        (checkpoint / "model.safetensors").write_text(checkpoint.name)
    return folder / "run"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def test_the_rule_names_the_checkpoint(folder: Path) -> None:
    assert is_run(str(folder))
    last = subject_of(str(folder), {"dtype": "float32"}, None)
    assert last.spec == f"transformers:{folder / 'checkpoints' / '000004'}"
    assert last.origin["checkpoint"] == {"rule": "last", "rollout": 4, "of": 4}
    assert last.options == {"dtype": "float32"} | {k: v for k, v in last.options.items() if k != "dtype"}
    second = subject_of(str(folder), {}, "3")
    assert second.spec.endswith("000003")
    assert second.origin["weights"] != last.origin["weights"]
    with pytest.raises(SuiteError, match="no checkpoint 9; it has those of 3, 4"):
        subject_of(str(folder), {}, "9")
    with pytest.raises(SuiteError, match="no run's folder"):
        subject_of("smollm2", {}, "last")
    assert subject_of("smollm2", {"threads": 1}, None).spec == "smollm2"


def test_what_was_declared_stays_when_the_run_goes_on(folder: Path) -> None:
    declared = subject_of(str(folder), {}, "3").origin
    kept = kept_subject(str(folder), {}, "3", declared, is_done=False)
    assert kept is not None
    assert kept.origin == declared
    shutil.rmtree(folder / "checkpoints" / "000003")
    with pytest.raises(SuiteError, match="is gone"):
        kept_subject(str(folder), {}, "3", declared, is_done=False)
    done = kept_subject(str(folder), {}, "3", declared, is_done=True)
    assert done is not None
    assert done.origin == declared
    assert kept_subject(str(folder), {}, "last", declared, is_done=True) is None
    assert kept_subject(str(folder), {}, "3", None, is_done=False) is None


def test_what_is_no_model_is_refused(folder: Path) -> None:
    (folder / "checkpoints" / "000004" / "adapter").mkdir()
    with pytest.raises(SuiteError, match="merge them"):
        subject_of(str(folder), {}, "last")
    (folder / "checkpoints" / "000003" / "config.json").unlink()
    with pytest.raises(SuiteError, match="is no model"):
        subject_of(str(folder), {}, "3")
    shutil.rmtree(folder / "checkpoints" / "000004")
    (folder / "checkpoints" / "000004").symlink_to(folder / "checkpoints" / "000003")
    with pytest.raises(SuiteError, match="is gone"):
        subject_of(str(folder), {}, "last")


def test_the_base_of_a_run_is_the_model_with_which_it_began(folder: Path, tmp_path: Path) -> None:
    assert initial_of(str(folder), {}).spec == small_recipe(tmp_path).models.agent
    with pytest.raises(SuiteError, match="no run's folder"):
        evaluate(ScriptedModel([]), "OddCoin", base="initial")


def test_a_run_is_evaluated_at_its_checkpoint_beside_another_model(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra llm)")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed (extra llm)")
    from models.chat_tokenizers import tokenizer_of

    checkpoint = folder / "checkpoints" / "000004"
    (checkpoint / "config.json").unlink()
    tokenizer = tokenizer_of("chatml")
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    transformers.LlamaForCausalLM(config).save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    settings = {"k": 2, "tasks": 2, "agent": AgentSettings(turn_tokens=4, total_tokens=4, max_turns=1)}
    base = ScriptedModel(lambda request: "\\boxed{0}")
    found = evaluate(str(folder), "OddCoin", base=base, folder=tmp_path / "e", **settings)
    assert found.manifest["model"]["checkpoint"] == {"rule": "last", "rollout": 4, "of": 4}
    assert found.manifest["checkpoint_rule"] == "last"
    assert found.model.num_results == 4
    shutil.rmtree(checkpoint)
    assert evaluate(str(folder), "OddCoin", base=base, folder=tmp_path / "e", **settings).model == found.model
