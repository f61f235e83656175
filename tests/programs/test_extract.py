import pytest

from spade_gym.programs.extract import extract
from spade_gym.programs.reply import program_from_reply

CODE = '''import random


class CaveEnv:
    """Find the way out."""

    def __init__(self, max_turns=9):
        self.max_turns = max_turns

    def reset(self, seed=None):
        self.rng = random.Random(seed)
        return "Which way?", {}

    def step(self, action):
        return "There.", 1.0, True, False, {}
'''
IMPORT = "import random\n"
DRAFT = CODE.replace("CaveEnv", "DraftEnv")
USAGE = 'env = CaveEnv()\nobs, info = env.reset(seed=1)\nprint(env.step("x"))\n'
HEAD, TAIL = CODE[: CODE.index("    def step")], CODE[CODE.index("    def step") :]


def indent(text, margin):
    return "".join(margin + line if line.strip() else line for line in text.splitlines(keepends=True))


CASES = {
    "one fence": (f"Here:\n\n```python\n{CODE}```\nDone.", ()),
    "fence with prose that looks like nothing": (f"```python\n{CODE}```", ()),
    "py tag": (f"```py\n{CODE}```", ()),
    "capitalised tag": (f"```Python\n{CODE}```", ()),
    "python3 tag": (f"```python3\n{CODE}```", ()),
    "tag with attributes": (f'```python title="env.py"\n{CODE}```', ()),
    "pandoc tag": (f"```{{.python}}\n{CODE}```", ()),
    "no tag": (f"```\n{CODE}```", ()),
    "tildes": (f"~~~python\n{CODE}~~~", ()),
    "long fence": (f"````python\n{CODE}````", ()),
    "space after the fence": (f"```   python  \n{CODE}```   ", ()),
    "CRLF": (f"Hi\r\n```python\r\n{CODE}```\r\n".replace("\r\n", "\n").replace("\n", "\r\n"), ("normalise_newlines",)),
    "BOM before the fence": (f"\ufeff```python\n{CODE}```", ()),
    "zero width before the fence": (f"\u200b```python\n{CODE}\u200b```", ()),
    "indented fence": (f"1. Code:\n\n   ```python\n{indent(CODE, '   ')}   ```\n", ("dedent",)),
    "unclosed fence and prose": (
        f"Sure!\n```python\n{CODE}\nI hope that it's what you wanted.\n",
        ("unclosed_fence", "trailing_prose"),
    ),
    "closing fence with text behind": (f"```python\n{CODE}``` That was it.\n", ("inner_fence",)),
    "closing fence behind code": (f"```python\n{CODE.rstrip()}```\n", ("unclosed_fence", "remove_stray_fence")),
    "draft, then final": (f"```python\n{DRAFT}```\nBetter:\n```python\n{CODE}```", ()),
    "usage after": (f"```python\n{CODE}```\nUse:\n```python\n{USAGE}```", ()),
    "usage before": (f"```python\n{USAGE}```\nCode:\n```python\n{CODE}```", ()),
    "data and shell": (f'```json\n{{"a": 1}}\n```\n```python\n{CODE}```\n```bash\npython env.py\n```', ()),
    "longer fence outside": (f"````markdown\n# Cave\n```python\n{CODE}```\nThat is all\n````", ("inner_fence",)),
    "same fence outside": (f"```markdown\nHere:\n```python\n{CODE}```\n```", ("inner_fence",)),
    "thought": (f"<think>\nplan\n</think>\n```python\n{CODE}```", ()),
    "thought on the fence's line": (f"<think>plan</think>```python\n{CODE}```", ()),
    "draft in a thought": (f"<think>\n```python\n{DRAFT}```\n</think>\n```python\n{CODE}```", ()),
    "unclosed fence in a thought": (f"<think>\n```python\n{DRAFT}\n</think>\n```python\n{CODE}```", ()),
    "thought without its opening": (f"plan\n```python\n{DRAFT}```\n</think>\n```python\n{CODE}```", ()),
    "unclosed thought": (f"<think>\nplan\n```python\n{CODE}```\n", ("unclosed_think",)),
    "bare code": (CODE, ()),
    "tags around": (f"Here:\n<code>\n{CODE}</code>\n", ("leading_prose", "trailing_prose")),
    "bare code after a thought": (f"<think>plan</think>\n\n{CODE}", ()),
    "bare code with BOM": ("\ufeff" + CODE, ("strip_bom",)),
    "bare code in prose": (
        f"Here's the game. It's fun.\n\n{CODE}\n\n**Notes**\n- It doesn't leak.\n",
        ("leading_prose", "trailing_prose"),
    ),
    "only a closing fence": (f"{CODE}```\n", ("remove_stray_fence",)),
    "only the tag": (f"python\n{CODE}", ("remove_language_tag",)),
    "class in two fences": (f"First:\n```python\n{HEAD}```\nthen\n```python\n{TAIL}```", ("joined_fences",)),
    "imports in a fence of their own": (
        f"```python\nimport random\n```\nthen\n```python\n{CODE.removeprefix(IMPORT)}```",
        ("joined_fences",),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_program_is_found(case):
    reply, repairs = CASES[case]
    program = program_from_reply(reply)
    assert program.source.strip() == CODE.strip()
    assert program.manifest.repairs == repairs


DOCSTRING = '"""A cave.\n\n```python\nenv = CaveEnv()\n```\n"""\n' + CODE


@pytest.mark.parametrize("reply", [DOCSTRING, f"```python\n{DOCSTRING}```", f"Code\n\n~~~py\n{DOCSTRING}~~~\n"])
def test_a_fence_inside_a_docstring_belongs_to_the_program(reply):
    program = program_from_reply(reply)
    assert program.source.strip() == DOCSTRING.strip()


def test_think_tags_in_the_program_belong_to_it():
    code = CODE.replace('"There."', 'action.replace("<think>", "").replace("</think>", "")')
    assert program_from_reply(f"<think>x</think>\n```python\n{code}```").source.strip() == code.strip()
    assert program_from_reply(code).source == code


def test_candidates_name_their_steps_and_lines():
    extraction = extract(f"Hi\n```python\n{DRAFT}```\n\n```python\n{CODE}```\n")
    first = extraction.candidates[0]
    assert (first.source, first.steps, first.closed) == (CODE, ("fence",), True)
    assert first.line == 3 + DRAFT.count("\n") + 3
    assert not extraction.thought_code
