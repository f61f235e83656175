import io

import pytest

from spade_gym.cli.terminal import display_width, has_colour, table, visible, width, wrap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本 ✓", "plain é 日本 ✓"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\x07\x08\x7f\x00", "a\\x07\\x08\\x7f\\x00"),
        ("\u202eabc\u2066\u200b\ufeff", "\\u202eabc\\u2066\\u200b\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\u2028", "\\u2028"),
        ("a\tb", "a   b"),
    ],
)
def test_visible_shows_what_a_terminal_would_obey(text, shown):
    assert visible(text) == shown


def test_visible_without_newlines_stays_on_one_line():
    assert visible("a\nb\tc", newlines=False) == "a\\nb\\tc"


def test_width_is_bounded(monkeypatch):
    for columns, expected in (("5", 20), ("80", 80), ("1000", 100)):
        monkeypatch.setenv("COLUMNS", columns)
        assert width() == expected


def test_wrap_keeps_boards_and_breaks_long_lines():
    board = "  a b\n1 . x\n\n2 . ."
    assert wrap(board, columns=40) == board
    long = "  word " + "x" * 5 + " and more words than fit"
    lines = wrap(long, columns=20, indent="> ").split("\n")
    assert all(len(line) <= 20 for line in lines)
    assert lines[0].startswith(">   word")
    assert wrap("x" * 50, columns=20).count("\n") == 2


def test_table_cuts_what_does_not_fit_and_knows_wide_characters():
    text = table([("日本", "x" * 50), ("\x1b[1m", "b\nc")], header=("a", "b"), columns=30)
    lines = text.split("\n")
    assert all(display_width(line) <= 30 for line in lines)
    assert lines[1].startswith("日本     x")
    assert "\x1b" not in text
    assert lines[2].endswith("b\\nc")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colour_needs_a_terminal_that_wants_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert has_colour(Terminal())
    assert not has_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colour(Terminal())
