from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spade_gym.designer.near_text import Overlap, document_overlap, texts_of

DOCUMENT = "The tide sets every boat off its course, and a pilot corrects for it."


def test_strings_and_comments_are_texts_and_code_is_not():
    source = 'the_tide_sets = "The tide, sets"  # every boat\nx = f"off {x + 1}" \'its\'\n'
    assert texts_of(source) == "The tide, sets # every boat off {x + 1} its"


def test_the_overlap_is_counted_in_five_grams_and_words():
    # texts: 8 words, 4 grams; "the tide sets every boat off" holds 2 grams of the document
    source = 'x = "The tide sets"\ny = "every boat off somewhere else"\n'
    assert document_overlap(source, DOCUMENT) == Overlap(0.5, 6)
    assert document_overlap(source, DOCUMENT, gram=7) == Overlap(0.0, 0)
    assert document_overlap('x = "only four words here"', DOCUMENT) == Overlap(None, 0)
    assert document_overlap(source, "") == Overlap(0.0, 0)


@given(st.lists(st.sampled_from(["tide", "boat", "pilot", "north", "rock"]), min_size=5, max_size=30))
def test_a_copied_document_overlaps_wholly(words: list[str]):
    text = " ".join(words)
    assert document_overlap(f"x = '{text.upper()}'", text) == Overlap(1.0, len(words))
