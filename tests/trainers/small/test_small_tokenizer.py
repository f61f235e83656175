import numpy as np
import pytest

pytest.importorskip("transformers")

from spade_gym.designer.prompting import Prompts
from spade_gym.models.base import Completion, Sampling
from spade_gym.models.chat import ChatFormat
from spade_gym.prompt_folder import prompt_folder
from spade_trainers.small.families import FAMILIES
from spade_trainers.small.lessons import LAST_DESIGNS, design_lesson, play_lessons
from spade_trainers.small.tokenizer import END, make_tokenizer
from spade_trainers.small.warm_start import encode


@pytest.fixture(scope="module")
def tokenizer():
    rng = np.random.default_rng(0)
    texts = [FAMILIES[name](rng, "coins", 3).source for name in FAMILIES]
    return make_tokenizer(texts, size=512, max_context=1024)


def test_digits_are_tokens_of_their_own(tokenizer) -> None:
    text = "add 12 mod 10: 3 45"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    tokens = [tokenizer.decode([number]).strip() for number in ids]
    assert [token for token in tokens if any(char.isdigit() for char in token)] == ["1", "2", "1", "0", "3", "4", "5"]


def test_a_lesson_has_the_ids_that_a_chat_of_a_run_has(tokenizer) -> None:
    rng = np.random.default_rng(0)
    walk = FAMILIES["walk"](rng, "coins", 4)
    lessons = [
        design_lesson(rng, Prompts(prompt_folder("small", "designer")), LAST_DESIGNS),
        *play_lessons(walk, [3], hint=True),
    ]
    for lesson in lessons:
        ids, learnt = encode(tokenizer, lesson)
        chat = ChatFormat(tokenizer).start(lesson.messages[:1])
        for answer, after in zip(lesson.messages[1::2], [*lesson.messages[2::2], None], strict=True):
            chat.request("x", Sampling(), 0)
            said = (*tokenizer.encode(answer.content), END)
            chat.complete(
                Completion(
                    "x", answer.content, "stop", ids=said, logprobs=(0.0,) * len(said), kept_logprobs=(0.0,) * len(said)
                )
            )
            if after is not None:
                chat.observe([after])
        (sample,) = chat.samples()
        assert [*sample.ids] == ids
        assert [int(value) for value in sample.mask] == learnt
