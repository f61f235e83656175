import numpy as np
import pytest

from spade_gym.designer.prompting import Prompts
from spade_gym.programs.reply import program_from_reply
from spade_gym.prompt_folder import prompt_folder
from spade_trainers.small.families import FAMILIES
from spade_trainers.small.lessons import FIRST_DESIGNS, LAST_DESIGNS, design_lesson, hint_lesson, play_lessons


def test_a_request_is_answered_by_a_program_about_its_document() -> None:
    rng = np.random.default_rng(0)
    prompts = Prompts(prompt_folder("small", "designer"))
    lessons = [design_lesson(rng, prompts, LAST_DESIGNS) for _ in range(40)]
    for lesson in lessons:
        asked, answer = lesson.messages
        assert program_from_reply(answer.content, name="x", setting="multi_turn").source
        if "--- document" in asked.content:
            thing = asked.content.split("---\n")[1].split("\n")[0]
            assert thing in answer.content
    assert {lesson.messages[0].content.count("won ") for lesson in lessons} == {0, 1, 2}
    assert any("too easy" in lesson.messages[0].content for lesson in lessons)


def test_a_hint_is_about_its_program() -> None:
    asked, answer = hint_lesson(
        np.random.default_rng(1), Prompts(prompt_folder("small", "designer")), FIRST_DESIGNS
    ).messages
    assert asked.content.startswith("hint\n```python\n")
    assert answer.content


@pytest.mark.parametrize("family", FAMILIES)
def test_lessons_of_play_are_won_but_where_a_lock_has_a_try_too_few(family: str) -> None:
    made = FAMILIES[family](np.random.default_rng(3), "gems", 3)
    lessons = list(play_lessons(made, [5, 6, 7, 8], hint=True))
    assert len(lessons) == 4
    for lesson in lessons:
        roles = [message.role for message in lesson.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert lesson.messages[0].content.endswith(f"HINT: {made.hint}")
        assert all(message.content.startswith("\\boxed{") for message in lesson.messages[1::2])


def test_a_reversed_list_is_what_is_learnt() -> None:
    rng = np.random.default_rng(0)
    made = next(item for item in (FAMILIES["order"](rng, "gems", 4) for _ in range(99)) if item.hint == "reverse")
    (lesson,) = play_lessons(made, [1], hint=False)
    shown, answer = (message.content for message in lesson.messages)
    assert shown.startswith("reverse the gems: ")
    assert answer == "\\boxed{" + " ".join(reversed(shown.removeprefix("reverse the gems: ").split())) + "}"
