from __future__ import annotations

import pytest
from conftest import COUNTER, make_program
from design_requests import make_request

from spade_gym.designer.attempt import read_program
from spade_gym.designer.registry import RegistryDesigner
from spade_gym.designer.request import DesignerError
from spade_gym.pool import registry
from spade_gym.programs.reply import program_from_reply
from spade_gym.testing import check_designer


def test_the_bundled_programs_are_drawn_without_replacement():
    pool = list(registry())
    games = [program for program in pool if program.setting != "tool_use"]
    designer = RegistryDesigner(pool)
    replies = designer.write([make_request(f"design/0/{number}/0", seed=number) for number in range(len(games))])
    assert sorted(reply.program.digest for reply in replies) == sorted(program.digest for program in games)
    wanted = [program for program in games if program.manifest.skill == "Optimization"]
    assert {reply.program.digest for reply in replies[: len(wanted)]} == {program.digest for program in wanted}
    check_designer(lambda: RegistryDesigner(pool))


def test_the_manifest_stays_and_the_text_is_the_program():
    program = make_program(skill="Causal Inference", difficulty="hard", origin={"licence": "MIT"})
    (reply,) = RegistryDesigner([program]).write([make_request("design/2/1/0")])
    read = read_program(reply)
    assert (read.digest, read.manifest.hint, read.manifest.skill) == (program.digest, "Say win.", "Causal Inference")
    assert read.manifest.difficulty == "hard"
    assert read.manifest.origin == {
        "kind": "designer",
        "licence": "MIT",
        "designer": "registry",
        "request": "design/2/1/0",
    }
    assert program_from_reply(reply.text).source.strip() == COUNTER.strip()


def test_no_programs_and_none_of_the_kind():
    with pytest.raises(DesignerError, match="at least one"):
        RegistryDesigner([])
    (reply,) = RegistryDesigner([make_program()]).write([make_request(setting="tool_use")])
    assert reply.error == "no program for the setting tool_use"
