from __future__ import annotations

from spade_gym.programs.similarity import similarity

BASE = '''
def area(width, height):
    """Multiply."""
    if width < 0:
        return 0
    return width * height
'''


def test_names_numbers_texts_and_docstrings_do_not_count() -> None:
    renamed = BASE.replace("width", "a").replace("height", "b").replace("0", "17").replace('"""Multiply."""\n    ', "")
    assert similarity(BASE, renamed) == 1.0


def test_other_structures_differ() -> None:
    assert similarity(BASE, "for i in range(3):\n    print([i for i in 'abc'], {1: 2})\n") < 0.1
