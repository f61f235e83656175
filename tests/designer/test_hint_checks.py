from __future__ import annotations

import time

import pytest

from spade_gym.designer.hint_checks import _identifiers, answer_leak, source_leak, value_leak
from spade_gym.designer.instances import InstanceView, view_instances
from spade_gym.pool import registry


def game(*solutions: str) -> list[InstanceView]:
    return [InstanceView(seed, "Find it.", [], tuple(text.split("\n")), ()) for seed, text in enumerate(solutions)]


CALL = '<tool_call>{"name": "move", "arguments": {"order": "%s", "to": "%s", "reason": "moved house"}}</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "move", "description": "Reasons: refund_pending, MX, 90"}}]


def shop(*rows: tuple[str, str, str]) -> list[InstanceView]:
    """Instances of (order, customer, city)."""
    return [
        InstanceView(
            seed,
            f"Move the order of '{customer}'.",
            TOOLS,
            (CALL % (order, city),),
            (f'{{"order": "{order}", "owner": "{customer}", "total": 57.25, "status": "sent", "path": "/a/b.txt"}}',),
        )
        for seed, (order, customer, city) in enumerate(rows)
    ]


SHOP = shop(("O-17", "Ada Moor", "bonn"), ("O-29", "Cem Sol", "ulm"))


@pytest.mark.parametrize(
    ("hint", "leaks"),
    [
        ("Every answer halves the range, so ask for the middle.", False),
        ("Mark 7 or mark 12 are common answers.", False),  # one of three short answers may stand there by chance
        ("It is 7, 12 or 30.", True),
    ],
)
def test_short_answers_count_when_most_seeds_have_them(hint: str, leaks: bool) -> None:
    assert bool(answer_leak(hint, game("7", "12", "30", "41", "55"))) is leaks


@pytest.mark.parametrize(
    ("solution", "hint"),
    [
        ("146", "Compute it; you get 146 in the end."),
        ("FIE", "The order is FIE."),
        ("C,E,F", "Choose C, E, F."),
        (r"\boxed{3 red 4 blue}", "Take 3 red 4 blue."),
        ("left\nup\nup\nright", "Go left, then up, up and right."),
        ("dig 3\ndig 17", "First dig 3 and then dig 17."),
    ],
)
def test_what_is_no_coincidence_counts_for_one_seed(solution: str, hint: str) -> None:
    others = ("99\n98", "97\n96", "95\n94")
    assert "it holds the" in answer_leak(hint, game(solution, *others))
    assert answer_leak("Think before you act.", game(solution, *others)) == ""


def test_moves_that_all_instances_share_are_no_answer() -> None:
    solutions = ("left\nup\nup\nleft\nup", "up\nleft\nleft\nup\nup", "up\nup\nup\nleft\nleft")
    assert answer_leak("You can go left or up; walls are to the left of every gate.", game(*solutions)) == ""


def test_without_a_solution_nothing_is_said() -> None:
    assert answer_leak("The answer is 146.", [InstanceView(0, "Find it.", [], None, ())]) == ""


@pytest.mark.parametrize(
    "hint",
    [
        "Look the order up before you move it, and read the error of the shop.",
        "A sent order goes back in 2 steps; a refund_pending one cannot be moved within 90 days.",
        "Orders of customers who moved to another house come first.",
    ],
)
def test_value_free_hints_pass(hint: str) -> None:
    assert value_leak(hint, SHOP) == ""


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        ("Move O-29 first.", "O-29"),
        ("Ask for ada moor.", "Ada Moor"),
        ("Send it to Bonn.", "bonn"),
        ("The total of 57.25 is too much.", "57.25"),
        ("Write it to /a/b.txt.", "/a/b.txt"),
        ("Give as reason: moved house.", "moved house"),
        ('Call <tool_call>{"name": "move", "arguments": {}}</tool_call>', "tool call"),
        ("End with <answer>done</answer>.", "an answer to copy"),
    ],
)
def test_values_of_instances_are_named(hint: str, value: str) -> None:
    assert value in value_leak(hint, SHOP)


@pytest.mark.parametrize("name", ["BinwiseRecovery", "TillbankRecovery", "OddCoin", "DinnerTable"])
def test_hints_of_bundled_programs_pass_and_their_solutions_do_not(name: str) -> None:
    program = registry().get(name)
    tool_use = program.setting == "tool_use"
    views = view_instances(program, range(6), play=tool_use)
    check = value_leak if tool_use else answer_leak
    assert check(program.manifest.hint, views) == ""
    for view in views[:3]:
        assert view.solution
        assert check(f"The way to win: {', then '.join(view.solution)}.", views)


def test_code_of_the_program_is_no_hint() -> None:
    program = registry().get("OddCoin")
    code = "def __init__(self, max_turns=6, **kwargs):"
    assert code in program.source
    assert source_leak(f"class OddCoinEnv:\n    {code}", program.source) == f"it quotes the source: {code!r}"
    assert source_leak(program.manifest.hint, program.source) == ""
    assert source_leak("self.turn = 0", "self.turn = 0") == ""  # too short to be told from prose


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Item 20240131x17x, not 5.", {"20240131x17x"}),
        ("Pay 1,200.50. Or 57.25, or 7.", {"1,200.50", "57.25"}),
        ("From 192.168.0.1: go.", {"192.168.0.1"}),
        ("See /a/b.txt, https://x.org/y-1/ and a_b; not a-b.", {"/a/b.txt", "https://x.org/y-1", "a_b"}),
        ("Ask (ann+x@shop-1.co.uk).", {"ann+x@shop-1.co.uk", "shop-1.co.uk"}),
    ],
)
def test_identifiers_addresses_and_numbers_of_a_text(text: str, values: set[str]) -> None:
    assert set(_identifiers(text)) == values


LONG = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "7" * LONG + "x", "7," * (LONG // 2) + "x", "7.7" * (LONG // 3) + "x", "." * LONG, "./" * (LONG // 2),
        "a" * LONG, "a." * (LONG // 2), "a@" * (LONG // 2), "a@" + "a." * (LONG // 2), "-" * LONG, "'a" * (LONG // 2),
        "A" * LONG, "Aa" * (LONG // 2) + "!", "Aa " * (LONG // 3) + "!", "=" * LONG + "'", "\\boxed{" * (LONG // 7),
        "{" * LONG, "[" * LONG, " " * LONG, "\n" * LONG,
    ],
)  # fmt: skip
def test_checks_take_linear_time_whatever_a_program_writes(text: str) -> None:
    views = [InstanceView(seed, text, TOOLS, (text, f"dig {seed}"), (text, f'{{"a": "{seed}"}}')) for seed in (0, 1)]
    source = f"text = {text!r}\n# {text!r}\n"
    for check in (
        lambda: list(_identifiers(text)),
        lambda: value_leak("Look the order up.", views, source=source),
        lambda: answer_leak("Look the order up.", views),
        lambda: source_leak("Look the order up.", text),
    ):
        begin = time.perf_counter()
        check()
        assert time.perf_counter() - begin < 1.0


def test_a_long_hint_is_compared_with_a_long_solution_in_bounded_time() -> None:
    views = [InstanceView(seed, "Find it.", [], (f"{seed} " + "+ " * LONG, "-"), ()) for seed in range(8)]
    begin = time.perf_counter()
    answer_leak("+ " * 1_000, views)
    assert time.perf_counter() - begin < 20.0
