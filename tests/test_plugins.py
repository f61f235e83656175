import sys

import pytest

from spade_gym import plugins
from spade_gym.plugins import PluginError


def install(folder, distribution, entry_points, modules=()):
    """Lay out an installed distribution in a folder, as pip would."""
    info = folder / f"{distribution.replace('-', '_')}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(entry_points)
    for name, source in modules:
        (folder / f"{name}.py").write_text(source)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_plugin_is_listed_without_being_imported_and_then_loaded(site):
    entry = "[spade_gym.scorers]\nsurprise_x = plugin_a:surprise\n"
    install(site, "plug-a", entry, [("plugin_a", "def surprise():\n    return 7\n")])
    (found,) = [item for item in plugins.available("scorers") if item.name == "surprise_x"]
    assert found == ("scorers", "surprise_x", "plugin_a:surprise", "plug-a 1.5")
    assert "plugin_a" not in sys.modules
    assert plugins.load("scorers", "surprise_x")() == 7
    assert plugins.load("spade_gym.scorers", "surprise_x")() == 7


def test_a_clash_names_both_distributions(site):
    install(site, "plug-a", "[spade_gym.models]\nm_x = plugin_a:one\n")
    install(site, "plug-b", "[spade_gym.models]\nm_x = plugin_b:two\n")
    with pytest.raises(PluginError, match=r"offered twice, by plug-a 1\.5 .*plug-b 1\.5"):
        plugins.load("models", "m_x")


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(site):
    install(site, "plug-a", "[spade_gym.samplers]\nuniform_x = plugin_a:u\nprioritised_x = plugin_a:p\n")
    with pytest.raises(PluginError, match=r"prioritised_x, uniform_x.*did you mean 'uniform_x'") as caught:
        plugins.load("samplers", "unifrom_x")
    assert "unifrom_x" in str(caught.value)


def test_an_unknown_group_lists_the_groups():
    with pytest.raises(PluginError, match="trainers, designers, generators, scorers"):
        plugins.available("trainer")


@pytest.mark.parametrize(
    ("source", "reason"),
    [("import nowhere_to_be_found\n", "ModuleNotFoundError"), ("raise ValueError('boom')\n", "ValueError: boom")],
)
def test_a_plugin_that_fails_to_import_is_named(site, source, reason):
    install(site, "plug-a", "[spade_gym.designers]\nbad_x = plugin_bad:d\n", [("plugin_bad", source)])
    with pytest.raises(PluginError, match=rf"'plugin_bad:d' of the distribution plug-a 1\.5.*{reason}") as caught:
        plugins.load("designers", "bad_x")
    assert caught.value.__cause__ is not None


def test_a_missing_attribute_is_named(site):
    install(site, "plug-a", "[spade_gym.designers]\nbad_y = plugin_c:nope\n", [("plugin_c", "")])
    with pytest.raises(PluginError, match="AttributeError"):
        plugins.load("designers", "bad_y")
