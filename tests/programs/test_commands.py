import pytest

from spade_gym.programs.commands import Announced, discover, expand, variants


def boxed(text):
    return text.replace("[[", "\\boxed{").replace("]]", "}")


@pytest.mark.parametrize(
    ("templates", "commands"),
    [
        (["look"], ("look",)),
        (["open {1..3}"], ("open 1", "open 2", "open 3")),
        (["go {north|south}"], ("go north", "go south")),
        (["{1..2} {a|b}"], ("1 a", "1 b", "2 a", "2 b")),
        (["{-1..1}"], ("-1", "0", "1")),
        (["\\boxed{put {1..2}}"], ("\\boxed{put 1}", "\\boxed{put 2}")),
        (["a", "a", "{a|b}"], ("a", "b")),
        (["{}", "{x}"], ("{}", "{x}")),
        ([""], ("",)),
        ([], ()),
    ],
)
def test_templates_are_expanded_in_order(templates, commands):
    assert expand(templates, 10) == commands


@pytest.mark.parametrize(
    "templates", [["{1..11}"], ["{1..3} {1..4}"], ["{1..6}", "{7..12}"], ["{0..999999999} {0..999999999}"]]
)
def test_too_many_commands_are_refused(templates):
    with pytest.raises(ValueError, match="10"):
        expand(templates, 10)


def test_a_range_that_runs_backwards_is_refused():
    with pytest.raises(ValueError, match=r"write \{1\.\.3\}"):
        expand(["{3..1}"], 10)


SWAPS = tuple(f"swap {i} {i + 1}" for i in range(1, 10))
FINITE = [
    ("Commands: [[open 1]] ... [[open 3]], [[take]]", ("open 1", "open 2", "open 3", "take")),
    ("Commands: [[swap 1 2]], [[swap 2 3]], ..., [[swap 9 10]], [[sort]]", (*SWAPS, "sort")),
    ("Answer with [[rock]], [[paper]] or [[scissors]].", ("rock", "paper", "scissors")),
    ("Say [[yes]] or [[no]].", ("yes", "no")),
    ("Say [[yes/no]].", ("yes", "no")),
    ("Say [[left|right]].", ("left", "right")),
    ("Turn 1/9\nCommands: [[guess]]", ("guess",)),
    ("Commands: [[fill 1]], [[fill 2]], [[fill 3]], [[check]]", ("fill 1", "fill 2", "fill 3", "check")),
    (
        "Commands: [[press 1 1]] to [[press 2 3]]",
        ("press 1 1", "press 1 2", "press 1 3", "press 2 1", "press 2 2", "press 2 3"),
    ),
    ("Commands: [[a]] … [[d]]", ("a", "b", "c", "d")),
    ("Available actions: [[pick up]], [[look around]].", ("pick up", "look around")),
    ("Use [[go north]] or [[go south]].", ("go north", "go south")),
    ("Actions: north, south, east or west.", ("north", "south", "east", "west")),
    ("Commands: open 1 ... open 3, 'take'", ("open 1", "open 2", "open 3", "take")),
    ("Valid moves: 0-3", ("0", "1", "2", "3")),
    ("Available commands:\n- look: see the room\n- take\n\nYou see a key.", ("look", "take")),
]


@pytest.mark.parametrize(("text", "commands"), FINITE)
def test_complete_announcements(text, commands):
    assert discover(boxed(text)) == Announced(commands, (), True)


@pytest.mark.parametrize(
    ("text", "commands", "templates"),
    [
        ("[[buy <price>]] or [[sell <price>]]; [[trade]]", ("trade",), ("buy <price>", "sell <price>")),
        ("Use [[run WORD]] or [[predict NUMBER BITS]].", (), ("run WORD", "predict NUMBER BITS")),
        ("Answer in [[]].", (), ("",)),
        ("Weigh with [[A | B]].", (), ("A | B",)),
        ("[[add <ml>]] or [[stop]]", ("stop",), ("add <ml>",)),
        ("Answer with [[number]].", (), ("number",)),
        ("Answer with [[your answer]].", (), ("your answer",)),
        ("Reply with [[N]].", (), ("N",)),
        ("Reply with [[guess]].", (), ("guess",)),
        ("Finish with [[answer 5 light]].", ("answer 5 light",), ()),
        ("Reply with [[3]] to release 3 units.", ("3",), ()),
        ("Give it in degrees, such as [[23.5]].", ("23.5",), ()),
        ("Answer like [[Arlo]].", ("Arlo",), ()),
        ("For example [[B,D,A]].", ("B,D,A",), ()),
        ("[[probe 3 7]] tells all. [[replace 5]] replaces.", ("probe 3 7", "replace 5"), ()),
        ("[[press 2 3]] presses row 2, column 3.", ("press 2 3",), ()),
        ("Exact: [[\\frac{1}{2}]]", ("\\frac{1}{2}",), ()),
        ("Commands: [[look]]; [[set A=1,C=0]] forces lamps; [[finish]] ends.", ("look", "set A=1,C=0", "finish"), ()),
        ("[[ask Avo: is Bex a knave?]] asks.", ("ask Avo: is Bex a knave?",), ()),
        ("Commands: buy <n>, wait", ("wait",), ("buy <n>",)),
        ("Form: [[ROW COL]].", (), ("ROW COL",)),
        ("Such as [[AB, BC]].", ("AB, BC",), ()),
        ("In the form [[x,y]] or [[MOVE 3]].", ("x,y", "MOVE 3"), ()),
        ("Use [[TAKE KEY]].", ("TAKE KEY",), ()),
        ("Use [[GO cellar]].", ("GO cellar",), ()),
        ("Accuse with [[NAME knave]].", (), ("NAME knave",)),
        ("Type 'left' or 'right'.", ("left", "right"), ()),
        ("It's a sunny day.", (), ()),
        ("Commands: you may do whatever seems sensible to you at this time", (), ()),
        ("", (), ()),
        ("\\boxed{never closed", (), ()),
    ],
)
def test_examples_and_templates_are_not_all_there_is(text, commands, templates):
    assert discover(boxed(text)) == Announced(commands, templates, False)


def test_variants_replace_numbers_and_places():
    announced = discover(boxed("Commands: [[open 1]] ... [[open 3]], [[look]]"))
    assert variants(announced) == ("open 1", "open 2", "open 3", "look", "open 0", "open -1", "open 1000000000")
    assert variants(Announced((), ("buy <price>", ""), False), (0, 7)) == ("buy 0", "0", "buy 7", "7")
    assert variants(Announced(("swap 1 2",), (), True), (9,)) == ("swap 1 2", "swap 9 2", "swap 1 9", "swap 9 9")
    assert variants(Announced((), (), False)) == ()


def test_variants_are_bounded():
    many = Announced(tuple(f"word {i}" for i in range(500)), ("buy <n>",), False)
    found = variants(many)
    assert len(found) == 64
    assert {"word 0", "word -1", "buy 1000000000"} <= set(found)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{1} ... \\boxed{999999999}",
        "Commands:" + "," * 99_000,
        "\\boxed{a}" * 9_000,
        "Commands: \\boxed{a}" * 5_000,
        " " * 99_000,
    ],
)
def test_hostile_observations_take_no_long_time(text):
    assert len(discover(text).commands) <= 512
