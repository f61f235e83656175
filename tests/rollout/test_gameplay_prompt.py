from __future__ import annotations

from pathlib import Path

import pytest
from games import guess

from spade_gym.models.base import Message
from spade_gym.rollout.gameplay_prompt import PromptError, Template, first_observation, read_templates
from spade_gym.types import SETTINGS


@pytest.mark.parametrize("example", [False, True])
def test_the_bundled_prompts_are_whole(example: bool) -> None:
    templates = read_templates(example=example)
    assert set(templates) == set(SETTINGS)
    for setting, template in templates.items():
        text = template.around("<the observation>", [{"function": {"name": "look_up"}}])
        assert text.count("<the observation>") == 1
        assert "{observation}" not in text
        assert "{tools}" not in text
        assert bool(template.before) is example
        whole = text + "".join(message.content for message in template.before)
        assert (r"\boxed{" in whole) is (setting != "tool_use")
        assert ("<tool_call>" in whole) is (setting == "tool_use")
        assert len(whole) < (400 if example else 900)  # small models have room for 256 tokens


def test_a_template_is_a_chat() -> None:
    template = Template.parse("## system\nBe brief.\n\n## user\nHi\n## assistant\nHo\n## user\nNow: {observation}\n")
    assert template.before == (Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Ho"))
    assert template.around("x") == "Now: x"
    assert Template.parse("\nSee {observation}.\n### user\n") == Template((), "See {observation}.\n### user")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("nothing", "found 0"),
        ("{observation} {observation}", "found 2"),
        ("## user\n{observation}\n## assistant\nyes", "the assistant's"),
        ("## user\n{observation}\n## user\nx", "found 1"),
        ("x\n## user\n{observation}", "text before the first"),
    ],
)
def test_a_template_without_a_place_for_the_observation_is_refused(text: str, match: str) -> None:
    with pytest.raises(PromptError, match=match):
        Template.parse(text, "mine.md")


def test_what_stands_in_an_observation_is_only_text() -> None:
    template = Template.parse("{tools}|{observation}|{other} \\1")
    assert template.around(r"{tools} {observation} \g<1> {}") == r"|{tools} {observation} \g<1> {}|{other} \1"


def test_tools_are_listed_briefly_whatever_a_schema_holds() -> None:
    template = Template.parse("{tools}\n{observation}")
    assert template.lists_tools
    tools = [
        {"type": "function", "function": {"name": "f", "description": "Does.", "parameters": {
            "type": "object", "properties": {"a": {"type": "integer"}, "b": 7}}}},
        {"function": 3},
        {"name": "g", "parameters": []},
    ]  # fmt: skip
    assert template.around("go", tools).splitlines() == [
        '{"name": "f", "description": "Does.", "parameters": {"a": "integer", "b": "any"}}',
        '{"parameters": {}}',
        '{"name": "g", "parameters": {}}',
        "go",
    ]


def test_a_folder_of_prompts_is_read_and_nothing_outside_it(tmp_path: Path) -> None:
    for setting in SETTINGS:
        (tmp_path / f"{setting}.md").write_text(f"{setting}: {{observation}}", "utf-8")
    assert read_templates(folder=tmp_path)["tool_use"].around("x") == "tool_use: x"
    (tmp_path / "secret").write_text("{observation}", "utf-8")
    (tmp_path / "tool_use.md").unlink()
    with pytest.raises(PromptError, match=r"tool_use\.md"):
        read_templates(folder=tmp_path)
    (tmp_path / "tool_use.md").symlink_to(tmp_path / "secret")
    with pytest.raises(PromptError, match="symbolic link"):
        read_templates(folder=tmp_path)


def test_the_hint_follows_the_observation() -> None:
    assert first_observation(guess(), "See.", hint=False) == "See."
    assert first_observation(guess(), "See.", hint=True) == "See.\n\nHINT: It is the number you read."
    with pytest.raises(ValueError, match="has no hint"):
        first_observation(guess().with_manifest(hint=""), "See.", hint=True)
