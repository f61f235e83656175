from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_gym.errors import ManifestError, ReplyError
from spade_gym.programs.reply import program_from_reply, program_from_source
from spade_gym.programs.syntax import fault_of

REPLIES = Path(__file__).parent.parent / "data" / "replies"
CODE = """\
class AEnv:
    def reset(self, seed=None):
        return "", {}

    def step(self, a):
        return "", 0.0, True, False, {}
"""


def read(name):
    return (REPLIES / f"{name}.md").read_bytes().decode()


@pytest.mark.parametrize(
    ("file", "class_name", "setting", "max_turns", "repairs"),
    [
        ("fstring_brace", "SieveCountEnv", "single_turn", 1, ("brace_repair",)),
        ("two_env_classes", "BlackBoxEnv", "multi_turn", 20, ()),
        ("second_fence_after", "LarderFilesEnv", "tool_use", 30, ()),
        ("think_block", "AdjustedEffectEnv", "single_turn", 1, ()),
        ("capitalised_fence", "BinwiseRecoveryEnv", "tool_use", 30, ()),
        ("missing_import", "KnightLanternEnv", "multi_turn", 40, ("missing_import",)),
    ],
)
def test_real_replies(file, class_name, setting, max_turns, repairs):
    program = program_from_reply(read(file))
    manifest = program.manifest
    assert (manifest.class_name, manifest.setting, manifest.max_turns) == (class_name, setting, max_turns)
    assert (manifest.repairs, manifest.adapters) == (repairs, ())
    assert manifest.name == class_name.removesuffix("Env")
    compile(program.source, "program", "exec")


@pytest.mark.parametrize(("file", "line"), [("truncated", 97), ("cut_in_constructor", 82)])
def test_a_cut_off_reply_is_said_to_be_truncated(file, line):
    with pytest.raises(ReplyError, match="truncated") as caught:
        program_from_reply(read(file))
    assert caught.value.check == "syntax"
    assert f"ends at line {line}" in str(caught.value)


def test_an_open_end_between_two_statements_is_refused():
    with pytest.raises(ReplyError, match=r"ends before solution\(\)"):
        program_from_reply("```python\n" + CODE)
    cut = "```python\n" + CODE + "\n    def solution(self):\n        answer = 1\n"
    with pytest.raises(ReplyError, match="truncated") as caught:
        program_from_reply(cut)
    assert caught.value.check == "syntax"
    assert program_from_reply(cut + "        return 'x'\n").manifest.repairs == ("unclosed_fence",)
    assert program_from_reply(cut + "```").manifest.repairs == ()


@pytest.mark.parametrize(
    ("reply", "check", "words"),
    [
        ("", "extract", "no code"),
        ("I cannot do that.", "extract", "no code"),
        ("```\n```", "extract", "no code"),
        ('```json\n{"a": \n```', "extract", "no class"),
        (f"<think>\n```python\n{CODE}```\n</think>\nDone.", "extract", "inside its think block"),
        ("```python\nx = 1\n```", "contract", "defines no class"),
        ("```python\ndef FooEnv():\n    pass\n```", "contract", "FooEnv"),
        ("```python\nclass FooEnv:\n    def reset(self): pass\n    def go(self): pass\n```", "contract", "FooEnv"),
        ("```python\nclass FooEnv:\n    def step(self, a)\n        pass\n```", "syntax", "line 2"),
        ("```python\n" + CODE + "\x00\n```", "syntax", "null"),
        ("```python\n" + CODE + "x = '\ud800'\n```", "syntax", "surrogates"),
        ("```python\n" + CODE + "x = " + "(" * 150 + ")" * 150 + "\n" + "y = " + "-" * 30_000 + "1\n```", "syntax", ""),
    ],
)
def test_why_there_is_no_program(reply, check, words):
    with pytest.raises(ReplyError) as caught:
        program_from_reply(reply)
    assert caught.value.check == check
    assert words in str(caught.value)


def test_a_reply_that_is_no_text_or_too_long_is_refused():
    with pytest.raises(ReplyError, match="bytes"):
        program_from_reply(b"x")
    with pytest.raises(ReplyError, match="at most"):
        program_from_reply("x" * 300_001)


def test_given_fields_win_over_guesses():
    program = program_from_source(CODE, name="Other", setting="single_turn", skill="Optimization", origin={"kind": "x"})
    manifest = program.manifest
    assert (manifest.name, manifest.setting, manifest.skill) == ("Other", "single_turn", "Optimization")
    assert manifest.origin == {"kind": "x"}
    with pytest.raises(ManifestError, match="name"):
        program_from_source(CODE, name="no name")


def test_a_source_is_kept_as_it_is():
    assert program_from_source(CODE).source == CODE
    with pytest.raises(ReplyError, match="empty"):
        program_from_source(" \n")


OUTCOMES = ("extract", "syntax", "contract", "program")


def outcome(read_program, text):
    """Return the check that failed; a program must compile."""
    try:
        program = read_program(text)
    except ReplyError as error:
        return error.check
    return "broken" if fault_of(program.source) else "program"


PIECES = st.sampled_from(
    [
        *(
            "```",
            "```python\n",
            "~~~\n",
            "````\n",
            "<think>",
            "</think>",
            "\n",
            " ",
            "    ",
            "\t",
            "\r\n",
            "\ufeff",
            "\u200b",
        ),
        *(
            "class AEnv:\n",
            "    def reset(self, seed=None):\n",
            "    def step(self, a):\n",
            "        return 1\n",
            "import re\n",
        ),
        *(
            "'",
            '"',
            '"""',
            'f"',
            "{",
            "}",
            "{{",
            "\\boxed{",
            "\\",
            "\x00",
            "\ud800",
            "“",
            "(",
            ")",
            "[",
            ":",
            "#",
            "lambda:",
        ),
        *(
            "Here's the game.\n",
            "x = 1\n",
            "deque()",
            "\\N{",
            "=",
            "async ",
            "@",
            "0x",
            "9" * 5000,
            "-" * 300,
            "('" * 60,
        ),
    ]
)


@settings(max_examples=300, deadline=5_000)
@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=40).map("".join)))
def test_no_text_whatever_raises_anything_but_a_reply_error(text):
    assert outcome(program_from_reply, text) in OUTCOMES
    assert outcome(program_from_source, text) in OUTCOMES


@settings(max_examples=60, deadline=5_000)
@given(st.data())
def test_no_prefix_or_edit_of_a_real_reply_raises_anything_but_a_reply_error(data):
    reply = read(data.draw(st.sampled_from(["fstring_brace", "two_env_classes", "missing_import"])))
    cut = data.draw(st.integers(0, len(reply)))
    text = reply[:cut] + data.draw(PIECES) + data.draw(st.sampled_from(["", reply[cut:]]))
    assert outcome(program_from_reply, text) in OUTCOMES


@pytest.mark.parametrize(
    "text",
    [
        "```" * 60_000,
        "```\n" * 40_000,
        "```python\nclass A:\n" * 8_000,
        "<think>" * 30_000,
        "'" * 200_000,
        "\\'\n" * 60_000,
        'f"{' * 60_000,
        'f"' + "{ " * 80_000 + '"',
        "class A" + " " * 200_000,
        "class A(B):\n" * 20_000,
        "class AEnv:\n  pass\n" * 10_000,
        "\\boxed{" * 30_000,
        "(" * 200_000,
        "“" * 200_000,
        "import " * 30_000,
        "x = 1\n" * 40_000 + "Here's prose.\n",
        "a and b or " * 20_000,
    ],
)
@pytest.mark.timeout(60)
def test_hostile_text_does_not_hang(text):
    for read_program in (program_from_reply, program_from_source):
        with pytest.raises(ReplyError):
            read_program(text)


def test_turn_limits_and_names_beyond_what_a_manifest_takes_are_no_crash() -> None:
    from spade_gym.errors import ReplyError
    from spade_gym.programs.reply import program_from_source

    body = "    def reset(self, seed=None):\n        return '', {}\n"
    body += "    def step(self, a):\n        return '', 0.0, True, False, {}\n"
    endless = f"class AEnv:\n    def __init__(self, max_turns=10**9):\n        pass\n{body}".replace(
        "10**9", "1000000000"
    )
    assert program_from_source(endless).manifest.max_turns is None
    with pytest.raises(ReplyError, match="class name has"):
        program_from_source(f"class {'A' * 3000}Env:\n{body}")
