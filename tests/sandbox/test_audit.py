import pytest
from jails import session, stepping

from spade_gym.sandbox.base import World

AUDIT = World(audit=True)
BEFORE = "import os, sys, io, pathlib, socket, subprocess, threading, importlib, inspect, shutil, glob\n"

ATTEMPTS = {
    "file": [
        "open('/etc/passwd')", "io.open('/etc/passwd')", "os.open('/etc/passwd', 0)", "os.listdir('/')",
        "os.scandir('/etc')", "os.stat('/etc')", "os.path.exists('/etc')", "os.path.isfile('/etc/passwd')",
        "os.path.getsize('/etc/passwd')", "pathlib.Path('/etc/passwd').exists()", "list(pathlib.Path('/').glob('*'))",
        "pathlib.Path('/etc/passwd').read_text()", "os.access('/etc', 4)", "os.readlink('/proc/self/exe')",
        "os.remove('/nonesuch')", "os.mkdir('/nonesuch/x')", "open('x.txt', 'w')", "glob.glob('/etc/*')",
        "shutil.copy('/etc/passwd', '/tmp/x')", "sys.modules['posix'].stat('/etc')", "__import__('posix').lstat('/')",
        "importlib.machinery.SourceFileLoader('x', '/etc/passwd').get_data('/etc/passwd')",
        "__import__('linecache').getline('/etc/passwd', 1)", "__import__('sqlite3').connect('/tmp/x.db')",
        "__import__('tempfile').mkstemp()", "os.walk('/').__next__()", "open(os.__file__ + '/../../../../etc/passwd')",
        "open(0)", "__import__('_io').FileIO('/etc/passwd')", "os.chmod('/etc/passwd', 0)",
    ],
    "network": [
        "socket.socket()", "socket.create_connection(('127.0.0.1', 9))", "socket.gethostbyname('localhost')",
        "socket.getaddrinfo('localhost', 80)", "__import__('urllib.request').request.urlopen('http://127.0.0.1:9/')",
        "__import__('http.client').client.HTTPConnection('127.0.0.1', 9).connect()", "socket.socketpair()",
    ],
    "process": [
        "os.system('true')", "os.fork()", "os.popen('true')", "subprocess.run(['true'])", "os.kill(os.getppid(), 0)",
        "os.execv('/bin/true', ['true'])", "__import__('multiprocessing').Process(target=int).start()",
        "os.posix_spawn('/bin/true', ['true'], {})", "os.killpg(1, 0)",
    ],
    "environment": [
        "os.environ['HOME']", "os.environ.get('HOME')", "os.getenv('HOME')", "os.environb.get(b'HOME')",
        "dict(os.environ)", "'HOME' in os.environ", "os.getenvb(b'HOME')", "os.environ.copy()", "list(os.environ)",
    ],
    "native": ["__import__('ctypes').CDLL(None)", "__import__('ctypes').string_at(id(1), 1)"],
    "thread": [
        "threading.Thread(target=int).start()", "__import__('_thread').start_new_thread(int, ())",
        "threading.Timer(1, int).start()", "__import__('concurrent.futures').futures.ThreadPoolExecutor().submit(int)",
    ],
    "eval": ["eval(action)", "exec(action)", "compile(action, 'x', 'eval')"],
    "input": ["input()"],
}  # fmt: skip
HARMLESS = [
    "__import__('collections').namedtuple('P', 'x y')(1, 2)",
    "__import__('dataclasses').make_dataclass('D', ['x'])(1)",
    "__import__('enum').Enum('E', 'A B')",
    "__import__('traceback').format_exc()",
    "__import__('traceback').format_stack()",
    "__import__('re').match(r'a+', 'aaa')",
    "__import__('json').loads('[1]')",
    "__import__('typing').Optional[int]",
    "__import__('typing').get_type_hints(XEnv)",
    "__import__('random').seed(1)",
    "__import__('random').Random().random()",
    "__import__('datetime').datetime.now()",
    "__import__('decimal').Decimal('1.1')",
    "__import__('fractions').Fraction(1, 3)",
    "__import__('zoneinfo').ZoneInfo('UTC')",
    "__import__('copy').deepcopy([1, [2]])",
    "__import__('ast').literal_eval('[1]')",
    "__import__('colorsys').rgb_to_hls(0, 0, 0)",
    "__import__('wave')",
    "__import__('chunk' if 0 else 'sched')",
    "__import__('string').Template('$x').substitute(x=1)",
    "__import__('textwrap').dedent(' x')",
    "print('hello')",
    "__import__('logging').getLogger('x').warning('hello')",
    "__import__('warnings').warn('hello')",
    "os.path.join('a', 'b')",
    "pathlib.PurePath('a') / 'b'",
    "inspect.signature(XEnv.step)",
    "inspect.getsource(XEnv)",
    "os.getpid()",
    "os.getcwd()",
    "__import__('uuid').uuid4()",
    "__import__('secrets').token_hex(4)",
    "__import__('hashlib').sha256(b'x').hexdigest()",
    "__import__('time').sleep(1)",
    "io.StringIO('x').read()",
    "__import__('functools').lru_cache(int)(1)",
    "__import__('sqlite3').connect(':memory:').execute('select 1').fetchall()",
    "__import__('locale').getlocale()",
    "__import__('calendar').month(2024, 2)",
    "__import__('ctypes').c_int(3)",
    "__import__('pickle').loads(b'N.')",
    "__import__('statistics').mean([1, 2])",
    "__import__('pprint').pformat({1: 2})",
    "__import__('html').escape('<')",
    "__import__('unittest.mock').mock.Mock()",
    "__import__('gettext').gettext('x')",
    "os.urandom(4)",
    "sys.settrace(None)",
    "__import__('encodings.rot_13')",
    "'x'.encode('rot13') if 0 else 'x'.encode('cp850')",
    "__import__('platform').system()",
]


def attempts(expression: str) -> list[tuple[str, str, int]]:
    what = stepping(
        f"try:\n    {expression}\nexcept BaseException: pass\nreturn 'x', 0.0, False, False, {{}}", before=BEFORE
    )
    with session(what, world=AUDIT) as played:
        slot = played.open()
        played.reset(slot, 0)
        assert played.accesses() == []
        played.step(slot, "1 + 1")
        played.step(slot, "1 + 1")
        return [(row.kind, row.detail, row.count) for row in played.accesses()]


@pytest.mark.parametrize(
    ("kind", "expression"), [(kind, expression) for kind, group in ATTEMPTS.items() for expression in group]
)
def test_an_attempt_is_recorded(kind: str, expression: str) -> None:
    rows = attempts(expression)
    assert kind in {row[0] for row in rows}, rows
    assert sum(row[2] for row in rows if row[0] == kind) >= 2


@pytest.mark.parametrize("expression", HARMLESS)
def test_harmless_code_is_no_attempt(expression: str) -> None:
    assert attempts(expression) == []


def test_a_row_names_the_line_and_counts() -> None:
    what = stepping("try: open('/etc/passwd')\nexcept OSError: pass\nreturn 'x', 0.0, False, False, {}")
    with session(what, world=AUDIT) as played:
        slot = played.open()
        played.reset(slot, 0)
        for _ in range(3):
            played.step(slot, "a")
        row = played.accesses()[0]
    assert (row.kind, row.detail, row.count) == ("file", "open('/etc/passwd')", 3)
    assert what.source.splitlines()[row.line - 1].strip() == "try: open('/etc/passwd')"


def test_attempts_while_loading_are_known_even_when_it_fails() -> None:
    with session("open('/etc/shadow-of-a-doubt')\nclass XEnv: pass", world=AUDIT) as played:
        assert [row.kind for row in played.accesses()] == ["file"]


def test_a_flood_of_attempts_is_bounded() -> None:
    what = stepping(
        "for n in range(999):\n    try: open(f'/no/{n}')\n    except OSError: pass\nreturn 'x', 0.0, False, False, {}"
    )
    with session(what, world=AUDIT) as played:
        slot = played.open()
        played.reset(slot, 0)
        played.step(slot, "a")
        assert len(played.accesses()) == 200


def test_play_is_the_same_under_audit() -> None:
    what = stepping("return f'{random.random()} {time.time()}', 0.0, False, False, {}", before="import random, time")
    found = []
    for world in (World(), AUDIT):
        with session(what, world=world) as played:
            slot = played.open()
            played.reset(slot, 1)
            found.append(played.step(slot, "a"))
    assert found[0] == found[1]
