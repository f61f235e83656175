import os
import signal
import subprocess
import sys
import types

import pytest

from spade_gym.cli import main as main_module
from spade_gym.cli.main import main
from spade_gym.errors import PoolError


@pytest.fixture
def command(monkeypatch):
    """Register a command ``try`` whose behaviour the test chooses."""

    def register(run):
        module = types.ModuleType("try_command")
        module.add_arguments = lambda parser: parser.add_argument("--word", default="x")
        module.run = run
        monkeypatch.setitem(sys.modules, "try_command", module)
        monkeypatch.setitem(main_module.COMMANDS, "try", ("try_command", "try something"))

    return register


def raising(error):
    def run(args):
        raise error

    return run


def test_the_command_gets_its_arguments_and_its_status_is_returned(command):
    seen = []
    command(lambda args: seen.append((args.word, args.debug)) or 5)
    assert main(["try", "--word", "hello"]) == 5
    assert main(["--debug", "try"]) == 5
    assert main(["try", "--debug"]) == 5
    assert seen == [("hello", False), ("x", True), ("x", True)]


def test_an_error_is_one_harmless_line(command, capsys):
    command(raising(PoolError("no pool at \x1b[2J here")))
    assert main(["try"]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "spade-gym: no pool at \\x1b[2J here\n")
    with pytest.raises(PoolError):
        main(["try", "--debug"])


def test_ctrl_c_and_a_closed_pipe_have_their_statuses(command, capsys):
    command(raising(KeyboardInterrupt()))
    assert main(["try"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_file_system_errors_are_one_line(command, capsys):
    command(raising(PermissionError(13, "Permission denied", "x.txt")))
    assert main(["try"]) == 2
    assert capsys.readouterr().err == "spade-gym: [Errno 13] Permission denied: 'x.txt'\n"


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--help"], 0, "doctor"),
        ([], 2, "usage"),
        (["chek"], 2, "Did you mean check?"),
        (["check"], 2, "FILE"),
        (["check", "--nonsense", "x"], 2, "--nonsense"),
        (["check", "--jobs", "0", "x"], 2, "positive integer"),
        (["check", "--isolation", "L9", "x"], 2, "L9"),
        (["pool"], 2, "ACTION"),
        (["play", "X", "--seed", "-1"], 2, "from 0"),
    ],
)
def test_usage(arguments, status, text, capsys):
    assert main(arguments) == status
    output = capsys.readouterr()
    assert text in output.out + output.err


@pytest.mark.parametrize("name", ["check", "list", "show", "play", "pool", "doctor"])
def test_every_command_explains_itself(name, capsys):
    assert main([name, "--help"]) == 0
    assert f"usage: spade-gym {name}" in capsys.readouterr().out


def test_help_imports_no_command_and_nothing_more_than_the_package_does():
    script = (
        "import sys, spade_gym\n"
        "before = set(sys.modules)\n"
        "from spade_gym.cli.main import main\n"
        "main(['--help'])\n"
        "new = sorted(name for name in set(sys.modules) - before if name.partition('.')[0] != 'encodings')\n"
        "ours = [name for name in new if name.startswith('spade_gym')]\n"
        "heavy = {'numpy', 'gymnasium', 'msgspec'} & set(new)\n"
        "allowed = ['spade_gym.cli', 'spade_gym.cli.main', 'spade_gym.cli.terminal']\n"
        "sys.exit(f'imported {ours} {heavy}' if heavy or set(ours) - set(allowed) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_gets_no_complaint():
    script = (
        "import sys\n"
        "from spade_gym.cli import main as m\n"
        "import types\n"
        "fake = types.ModuleType('fake')\n"
        "fake.add_arguments = lambda parser: None\n"
        "fake.run = lambda args: [print('x' * 100) for _ in range(10000)] and 0\n"
        "sys.modules['fake'] = fake\n"
        "m.COMMANDS['fake'] = ('fake', 'fake')\n"
        "sys.exit(m.main(['fake']))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert (process.wait(60), errors) == (141, b"")


STREAMS = """
import sys, types
from spade_gym.cli import main as m
fake = types.ModuleType("fake")
fake.add_arguments = lambda parser: None
fake.run = lambda args: print("x", sys.stdin.read()) or print("y", file=sys.stderr) or sys.stdout.isatty() + 3
sys.modules["fake"] = fake
m.COMMANDS["fake"] = ("fake", "fake")
sys.exit(m.main(["fake"]))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_empty_ones(closed):
    words = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, STREAMS]
    done = subprocess.run(words, input="", capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)


def test_an_error_that_a_library_made_of_ctrl_c_is_still_ctrl_c(command):
    def convert(args):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("half a module") from None

    before = signal.getsignal(signal.SIGINT)
    command(convert)
    assert main(["try"]) == 130
    assert signal.getsignal(signal.SIGINT) is before


def interrupted_import(name):
    """Start the package as a process of that name, which is interrupted in the middle of the imports."""
    script = (
        f"import sys, signal; sys.argv[0] = {name!r}; sys.modules['gymnasium'] = None\n"
        "class Stop:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'spade_gym.envs':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stop())\n"
        "try:\n"
        "    import spade_gym\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7)\n"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


def test_ctrl_c_during_the_import_is_quiet_in_the_command_and_ordinary_elsewhere():
    done = interrupted_import("/usr/bin/spade-gym")
    assert (done.returncode, done.stderr) == (130, "")
    assert interrupted_import("train.py").returncode == 7
