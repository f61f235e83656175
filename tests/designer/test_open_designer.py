from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import make_program
from design_requests import game, make_request

from spade_gym.designer.open_designer import open_designer
from spade_gym.designer.request import DesignerError
from spade_gym.errors import PoolError
from spade_gym.plugins import PluginError
from spade_gym.pool import Pool
from spade_gym.testing import check_designer

PLUGIN = """
from spade_gym.designer.request import DesignReply

class Echo:
    name = "echo"

    def __init__(self, text, loud=False):
        self.text = text.upper() if loud else text

    def write(self, requests):
        return [DesignReply(request, self.text) for request in requests]

def nothing(text):
    return text
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out an installed distribution with two designers."""
    info = tmp_path / "echo_designer-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-designer\nVersion: 1.5\n")
    entries = "echo = echo_designer_module:Echo\nnothing = echo_designer_module:nothing\n"
    (info / "entry_points.txt").write_text(f"[spade_gym.designers]\n{entries}")
    (tmp_path / "echo_designer_module.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "echo_designer_module", raising=False)


@pytest.mark.parametrize("spec", ["recorded", "registry", "mutate", "mutate:registry"])
def test_built_in_designers_conform(spec: str):
    check_designer(lambda: open_designer(spec))


def test_bundled_programs_may_be_named():
    replies = open_designer("registry:BeaconWalk, SignalBox").write([make_request(), make_request()])
    assert {reply.program.name for reply in replies if reply.program is not None} == {"BeaconWalk", "SignalBox"}
    (reply,) = open_designer("registry:BeaconWalk,").write([make_request()])
    assert reply.program is not None
    assert reply.program.name == "BeaconWalk"
    with pytest.raises(PoolError, match="NoSuchGame"):
        open_designer("registry:BeaconWalk,NoSuchGame")


def test_folders_and_pools_may_be_named(tmp_path: Path):
    (tmp_path / "replies").mkdir()
    (tmp_path / "replies" / "a.md").write_text(game("Alpha"))
    program = make_program()
    Pool(tmp_path / "pool").add(program)
    (reply,) = open_designer(f"recorded:{tmp_path / 'replies'}").write([make_request()])
    assert reply.text == game("Alpha")
    (reply,) = open_designer(f"registry:{tmp_path / 'pool'}").write([make_request()])
    assert reply.program == program
    (reply,) = open_designer(f"mutate:{tmp_path / 'pool'}", max_changes=1).write([make_request()])
    assert dict(reply.origin)["parent"] == program.digest


def test_unknown_names_list_the_known_ones_and_the_nearest(plugin: None):
    with pytest.raises(DesignerError, match=r"'regestry'.*recorded:FOLDER.*plugins: echo.*did you mean 'registry'"):
        open_designer("regestry")
    with pytest.raises(DesignerError, match="needs a language model"):
        open_designer("model")
    with pytest.raises(DesignerError, match="takes nothing after its name, got 'x'"):
        open_designer("model:x")
    with pytest.raises(DesignerError, match="no readable folder"):
        open_designer("recorded:/there/is/none")


def test_plugins_are_opened_by_name(plugin: None):
    check_designer(lambda: open_designer("echo:hello"))
    (reply,) = open_designer("echo:hello", loud=True).write([make_request()])
    assert reply.text == "HELLO"
    with pytest.raises(PluginError, match=r"must give a designer .*got 'x'"):
        open_designer("nothing:x")
