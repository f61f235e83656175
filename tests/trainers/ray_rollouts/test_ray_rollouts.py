"""Plays on a local Ray cluster are those of one process, whoever dies meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the extra 'ray'")

import ray
from models.scripted_server import Handler, Server, completion, serving
from rollout.games import guess, orders_of, shop

from spade_gym.models.base import ModelError, ModelRequest, Sampling
from spade_gym.models.open_model import open_model
from spade_gym.rollout.play import Play
from spade_gym.rollout.player_settings import PlayerSettings
from spade_gym.rollout.rollout import Counts, play_all, stream_plays
from spade_trainers.ray_rollouts.cluster import Cluster
from spade_trainers.ray_rollouts.model import RayModel
from spade_trainers.ray_rollouts.worker import Worker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SETTINGS = PlayerSettings(max_turns=4, sampling=Sampling(max_tokens=64), prompts=None)


def think(handler: Handler) -> None:
    """Guess by the seed of the turn, and take a while for it."""
    port = handler.client_address[1]
    body = next(seen.body for seen in reversed(handler.server.seen) if seen.connection == port)
    time.sleep(0.03)
    luck = hashlib.sha256(json.dumps([body["seed"], body["messages"][-1]["content"]]).encode()).digest()[0] % 5
    data = json.dumps(completion(f"I say \\boxed{{{'crash' if luck == 4 and body['seed'] % 7 == 0 else luck}}}"))
    handler.reply(200, data.encode())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(think) as running:
        yield running


@pytest.fixture
def model(server) -> Iterator[RayModel]:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    opened = open_model(f"ray:openai:{server.url}#m", workers=2, cpus=0.5, orders_per_task=4)
    with contextlib.closing(opened):
        yield opened


def orders():
    return [
        *orders_of(guess(), range(40)),
        *orders_of(guess(), range(6), arm="hint"),
        *orders_of(shop(), [1, 2], environment=1),
    ]


def rows(plays) -> list[Play]:
    return [dataclasses.replace(play, seconds=0.0) for play in plays]


@pytest.fixture(scope="module")
def expected(server) -> list[Play]:
    with contextlib.closing(open_model(f"openai:{server.url}#m")) as local:
        plays = rows(play_all(orders(), local, settings=SETTINGS))
    assert {play.status for play in plays} == {"ok", "env_error"}
    assert {play.won for play in plays} == {True, False}
    return plays


def test_two_workers_play_what_one_process_plays(model, expected):
    counts: list[Counts] = []
    plays = play_all(orders(), model, settings=SETTINGS, progress=counts.append)
    assert rows(plays) == expected
    assert counts[-1].plays == len(expected)
    assert counts[-1].faulty == sum(play.status != "ok" for play in expected)
    assert model.name == "ray:openai:m" or model.name.startswith("ray:openai")


@pytest.mark.parametrize("number", [0, 1])
def test_plays_of_a_worker_that_was_killed_are_played_again_and_count_once(model, expected, number):
    victims, found = model.cluster.process_ids(), []
    for play in stream_plays(orders(), model, settings=SETTINGS):
        if not found:
            os.kill(victims[number], signal.SIGKILL)
        found.append(play)
    assert sorted(play.key for play in found) == sorted(order.key for order in orders())
    by_key = {play.key: play for play in rows(found)}
    assert [by_key[play.key] for play in expected] == expected
    now = model.cluster.process_ids()
    assert victims[number] not in now
    assert victims[1 - number] in now


def test_a_stream_that_is_left_early_leaves_workers_that_play_on(model, expected):
    stream = stream_plays(orders(), model, settings=SETTINGS)
    next(stream)
    stream.close()
    assert rows(play_all(orders(), model, settings=SETTINGS)) == expected


def test_errors_of_a_worker_are_errors_here_and_it_works_on(model, expected):
    hopeless = dataclasses.replace(SETTINGS, prompts=Path("/nowhere"))
    with pytest.raises(Exception, match="nowhere"):
        play_all(orders(), model, settings=hopeless)
    assert rows(play_all(orders(), model, settings=SETTINGS)) == expected
    with pytest.raises(ModelError, match="does not take new weights"):
        model.cluster.update_weights(1, b"")
    model.close()
    with pytest.raises(ModelError, match="are closed"):
        play_all(orders(), model, settings=SETTINGS)


class Dying(Worker):
    """Dies of the third piece, whoever has it."""

    def __init__(self, spec: str, settings: str) -> None:
        self._played = 0

    def play(self, task: bytes) -> bytes:
        if task == b"2":
            os._exit(1)
        return task


def test_a_piece_that_kills_three_workers_ends_the_work_and_is_named(server):
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = Cluster(f"openai:{server.url}#m", {}, num_workers=2, cpus=0.5)
    with contextlib.closing(cluster):
        cluster._make = ray.remote(Dying).options(num_cpus=0.5).remote
        for place in range(2):
            cluster._replace(place)
        done: list[tuple[int, bytes]] = []
        with pytest.raises(ModelError, match=r"3 workers died at the same piece of work \(number 2\)"):
            done.extend(cluster.each("play", [b"%d" % number for number in range(6)]))
        assert len(set(done)) == len(done)
        assert (2, b"2") not in done


def test_it_keeps_the_promises_of_a_language_model(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    from models.chat_tokenizers import tokenizer_of
    from transformers import LlamaConfig, LlamaForCausalLM

    from spade_gym.testing import check_language_model

    tokenizer = tokenizer_of("chatml")
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=256, eos_token_id=tokenizer.eos_token_id, bos_token_id=None, initializer_range=0.3,
        )
    ).save_pretrained(tmp_path)  # fmt: skip
    tokenizer.save_pretrained(tmp_path)
    check_language_model(RayModel(f"transformers:{tmp_path}", workers=2, cpus=0.5), max_differing=1)


def test_workers_take_new_weights_and_so_does_one_in_the_place_of_a_dead_one(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    from trainers.grpo.grpo_policies import tiny, tokenizer

    tiny(seed=1).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    asked = [
        ModelRequest(str(number), (), Sampling(9, 1.0, top_p=1.0, top_k=0), number, (3, 4, 5)) for number in range(7)
    ]

    def answers(model) -> dict[str, object]:
        for request in asked:
            model.submit(request)
        found = {}
        while completions := model.collect():
            found.update((item.key, (item.ids, item.policy_version)) for item in completions)
        return found

    local = open_model(f"transformers:{tmp_path}")
    remote = RayModel(f"transformers:{tmp_path}", workers=2, cpus=0.5)
    with contextlib.closing(local), contextlib.closing(remote):
        first = answers(remote)
        assert first == answers(local)
        for model in (local, remote):
            model.update_weights(3, tiny(seed=2).state_dict().items())
        second = answers(remote)
        assert second == answers(local) != first
        os.kill(remote.cluster.process_ids()[0], signal.SIGKILL)
        assert answers(remote) == second
