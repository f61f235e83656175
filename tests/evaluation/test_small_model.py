from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_gym.evaluation.evaluate import evaluate
from spade_gym.selfplay.recipe import AgentSettings

pytest.importorskip("torch", reason="torch is not installed (extra llm)")
pytest.importorskip("transformers", reason="transformers is not installed (extra llm)")


@pytest.mark.slow
def test_smollm2_answers_questions_and_plays(tmp_path: Path) -> None:
    """A real model through both kinds of suites, and again from the folder without a model."""
    rows = [
        {"kind": "exact", "question": "What is the capital of France? One word.", "answer": "Paris"},
        {"question": "Which one is an animal?", "choices": ["stone", "dog"], "answer": "dog"},
    ]
    path = tmp_path / "suite.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    agent = AgentSettings(turn_tokens=48, total_tokens=96, max_turns=2, example=True)
    pytest.importorskip("gguf", reason="gguf is not installed (extra llm)")
    found = evaluate("smollm2", str(path), k=4, agent=agent, folder=tmp_path / "questions")
    assert found.model.num_results == 8
    assert found.missing == {}
    assert "smollm2" in found.names["model"]["name"]
    assert found.names["model"]["tokenizer"]
    assert found.model.completion_tokens > 8
    assert evaluate("smollm2", str(path), k=4, agent=agent, folder=tmp_path / "questions").model == found.model
    played = evaluate("smollm2", "BeaconWalk", k=2, tasks=2, agent=agent, folder=tmp_path / "plays")
    assert played.model.num_results == 4
    assert played.clusters == "instances"
    small = evaluate("smollm2", str(path), k=1, agent=AgentSettings(turn_tokens=8, context_tokens=20))
    assert small.model.ended == {"context": 2}
