import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from jails import need, session, stepping, strongest, why_not

from spade_gym.errors import (
    IsolationUnavailable,
    ProgramCrash,
    ProgramError,
    ProgramFault,
    ProgramTimeout,
    SandboxError,
)
from spade_gym.sandbox.base import Isolation, Limits, World
from spade_gym.sandbox.session import Session
from spade_gym.sandbox.zygotes import zygote_pool
from spade_gym.types import Transition

QUICK = Limits(step_seconds=0.5)
TROUBLE = stepping(
    """
    import os
    if action == "hang":
        while True: pass
    if action == "exit": os._exit(3)
    if action == "raise": raise ValueError("told to")
    if action == "fill": self.kept = bytearray(2 << 30)
    if action == "reward": return "x", 11.0, False, False, {}
    if action == "info": return "x", 0.25, False, False, {"n": self.n}
    return f"{action} {self.n} {self.seed}", 0.5, action == "win", action == "cut", {}
    """
)
needs_worker = pytest.mark.skipif(bool(why_not("L1")), reason="no worker processes on this system")
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def children(of: int | None = None) -> set[int]:
    """Every process below one, by default below this one."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry)] = int(fields[1])
    found: set[int] = set()
    while True:
        more = {pid for pid, parent in parents.items() if parent in found or parent == (of or os.getpid())} - found
        if not more:
            return found
        found |= more


def settled() -> set[int]:
    """The processes below this one once those killed before are gone."""
    while True:
        before = children()
        time.sleep(0.1)
        if children() == before:
            return before


def eventually(condition: object, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return bool(condition())  # type: ignore[operator]


# ---- playing


@pytest.mark.parametrize("level", ["L3", "L2", "L1", "L0"])
def test_play_is_the_same_at_every_level(level: str) -> None:
    need(level)
    with session(TROUBLE, level) as played:
        slot = played.open()
        assert played.reset(slot, 7) == Transition("ready", 0.0, False, False, {})
        assert played.step(slot, "a") == Transition("a 1 7", 0.5, False, False, {})
        assert played.step(slot, "info") == Transition("x", 0.25, False, False, {"n": 2})
        assert played.step(slot, "win") == Transition("win 3 7", 0.5, True, False, {})
        assert played.step(slot, "cut").truncated
        with pytest.raises(ProgramError, match=r"ValueError: told to \(line \d+ of the program\)"):
            played.step(slot, "raise")
        with pytest.raises(ProgramError, match="told to"):
            played.step(slot, "a")
        assert played.reset(slot, 8).observation == "ready"
        with pytest.raises(ProgramError, match=r"reward 11.0 is outside \[-10, 10\]"):
            played.step(slot, "reward")


@pytest.mark.parametrize(
    "action", ["", " ", "é\n\\ \0 \u2028", "😀" * 1000, "\\boxed{\\frac{1}{2}}", "x" * 300_000], ids=range(6)
)
def test_any_text_arrives_as_it_was_sent(action: str) -> None:
    with session(stepping("return f'{len(action)} {sum(map(ord, action))}', 0.0, False, False, {}")) as played:
        slot = played.open()
        played.reset(slot, 0)
        assert played.step(slot, action).observation == f"{len(action)} {sum(map(ord, action))}"


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_an_action_that_cannot_be_sent_is_refused_and_play_goes_on(level: str) -> None:
    need(level)
    with session(TROUBLE, level) as played:
        slot = played.open()
        played.reset(slot, 0)
        with pytest.raises(ValueError, match="surrogates"):
            played.step(slot, "\ud800")
        assert played.step(slot, "a").observation == "a 1 0"


def test_a_long_observation_arrives_whole() -> None:
    with session(stepping("return 'é' * 99_999, 0.0, False, False, {}")) as played:
        slot = played.open()
        played.reset(slot, 0)
        assert played.step(slot, "a").observation == "é" * 99_999


def test_instances_share_nothing() -> None:
    source = """
    import random
    SHARED = []
    class XEnv:
        kept = []
        def reset(self, seed=None, more=[]):
            SHARED.append(1); self.kept.append(1); more.append(1)
            return f"{len(SHARED)} {len(self.kept)} {len(more)} {random.random()}", {}
        def step(self, action):
            return str(random.random()), 0.0, False, False, {}
    """
    with session(source) as played:
        slots = [played.open() for _ in range(3)]
        first = [row.observation for row in played.reset_many([(slot, 5) for slot in slots])]  # type: ignore[union-attr]
        assert len(set(first)) == 1
        assert first[0].startswith("1 1 1 ")
        mixed = [played.step(slot, "x").observation for slot in (0, 1, 0, 2, 1, 2, 0, 1, 2)]
        assert mixed[0] == mixed[1] == mixed[3]
        assert mixed[6] == mixed[7] == mixed[8]


def test_questions_to_a_program() -> None:
    source = """
    class XEnv(ToolUseBaseEnv):
        def reset(self, seed=None):
            super().reset(seed)
            self._state = {"lamp": False}
            self._tools = {"switch": {"description": "Switch the lamp.", "parameters": {"type": "object",
                "properties": {"on": {"type": "boolean"}}, "required": ["on"]}}}
            self._user_messages = ["Switch the lamp on."]
            self._message_criteria = [lambda: self._state["lamp"]]
            return self._user_messages[0], {}
        def tool_switch(self, on: bool = True):
            self._state["lamp"] = on
            return "done"
        def solution(self):
            return ["one", "two"]
    """
    with session(source) as played:
        slot = played.open()
        played.reset(slot, 0)
        assert played.report.is_tool_use
        assert played.report.has_solution
        assert played.solution(slot) == "one\ntwo"
        assert "list_solution" in played.report.adapters
        assert played.num_criteria(slot) == 1
        assert played.criterion(slot, 0) == (False, "bool")
        assert played.tool_methods(slot) == {
            "switch": [{"name": "on", "required": False, "kind": "positional_or_keyword"}]
        }
        with pytest.raises(ProgramError):
            played.criterion(slot, 5)
        assert played.criterion(slot, 0).holds is False


# ---- faults


@needs_worker
def test_a_hung_step_is_killed_soon_after_its_deadline() -> None:
    with session(TROUBLE, limits=QUICK) as played:
        slot = played.open()
        played.reset(slot, 0)
        watch = played.death_watch()
        start = time.monotonic()
        with pytest.raises(ProgramTimeout) as caught:
            played.step(slot, "hang")
        assert watch.wait(1.0)
        watch.close()
        assert 0.5 <= time.monotonic() - start < 2.0
        assert caught.value.reason == "timeout"
        assert played.reset(slot, 1).observation == "ready"


@needs_worker
def test_a_deadline_holds_although_signals_keep_coming() -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with session(TROUBLE, limits=QUICK) as played:
            slot = played.open()
            played.reset(slot, 0)
            start = time.monotonic()
            with pytest.raises(ProgramTimeout):
                played.step(slot, "hang")
            assert time.monotonic() - start < 2.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@needs_worker
@pytest.mark.parametrize(
    ("bad", "kind", "reason"),
    [("hang", ProgramTimeout, "timeout"), ("exit", ProgramCrash, "crash"), ("raise", ProgramError, "error"),
     ("fill", ProgramError, "memory"), ("reward", ProgramError, "error")],
)  # fmt: skip
def test_only_the_culprit_is_blamed_and_the_others_lose_nothing(
    bad: str, kind: type[ProgramFault], reason: str
) -> None:
    with session(TROUBLE, limits=QUICK) as played:
        slots = [played.open() for _ in range(5)]
        played.reset_many([(slot, slot) for slot in slots])
        played.step_many([(slot, "a") for slot in slots])
        results = played.step_many([(slot, bad if slot == 2 else "b") for slot in slots])
        for slot, result in enumerate(results):
            if slot == 2:
                assert type(result) is kind
                assert result.reason == reason  # type: ignore[union-attr]
            else:
                assert result == Transition(f"b 2 {slot}", 0.5, False, False, {})
        again = played.step_many([(slot, "c") for slot in slots])
        assert [getattr(row, "observation", "fault") for row in again] == ["c 3 0", "c 3 1", "fault", "c 3 3", "c 3 4"]
        assert played.reset(2, 9).observation == "ready"
        assert played.step(2, "d").observation == "d 1 9"


@needs_worker
def test_several_culprits_in_one_batch() -> None:
    with session(TROUBLE, limits=QUICK) as played:
        slots = [played.open() for _ in range(6)]
        played.reset_many([(slot, slot) for slot in slots])
        actions = ["a", "exit", "a", "hang", "exit", "a"]
        results = played.step_many(list(zip(slots, actions, strict=True)))
        assert [getattr(row, "reason", "fine") for row in results] == [
            "fine", "crash", "fine", "timeout", "crash", "fine",
        ]  # fmt: skip
        assert [getattr(row, "observation", "") for row in played.step_many([(s, "b") for s in slots])] == [
            "b 2 0", "", "b 2 2", "", "", "b 2 5",
        ]  # fmt: skip


@needs_worker
def test_a_slow_batch_is_no_hang() -> None:
    slow = stepping(
        "import select\nselect.select([], [], [], 0.05)\nreturn f'{action} {self.n}', 0.0, False, False, {}"
    )
    with session(slow, limits=QUICK) as played:
        slots = [played.open() for _ in range(12)]
        played.reset_many([(slot, 0) for slot in slots])
        assert {row.observation for row in played.step_many([(s, "a") for s in slots])} == {"a 1"}  # type: ignore[union-attr]


@needs_worker
@pytest.mark.parametrize("how", ["a crash", "a new start"])
def test_a_replay_that_fails_blames_its_instance_only(how: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    fickle = stepping(
        f"""
        import os
        if action == "exit": os._exit(3)
        if action == "fickle" and open({str(flag)!r}).read(): raise ValueError("not this time")
        return f"{{action}} {{self.n}}", 0.0, False, False, {{}}
        """
    )
    flag.write_text("")
    with session(fickle, "L1") as played:
        slots = [played.open() for _ in range(4)]
        played.reset_many([(slot, 0) for slot in slots])
        played.step_many([(slot, "fickle" if slot == 1 else "a") for slot in slots])
        flag.write_text("x")
        if how == "a new start":
            played.close()
        results = played.step_many([(3, "exit" if how == "a crash" else "b"), (1, "b"), (0, "b"), (2, "b")])
        faults = ["crash" if how == "a crash" else "b 2", "error", "b 2", "b 2"]
        assert [getattr(row, "observation", None) or row.reason for row in results] == faults  # type: ignore[union-attr]
        assert "another way" in str(results[1])
        assert [played.step(slot, "c").observation for slot in (0, 2)] == ["c 3", "c 3"]


@needs_worker
def test_a_program_that_hangs_while_it_loads_is_tried_once_for_all_instances() -> None:
    with session("while True: pass\nclass XEnv: pass", limits=Limits(load_seconds=0.3)) as played:
        slots = [played.open() for _ in range(20)]
        start = time.monotonic()
        results = played.reset_many([(slot, 0) for slot in slots])
        assert time.monotonic() - start < 4.0
        assert {type(result) for result in results} == {ProgramTimeout}
        with pytest.raises(ProgramTimeout):
            _ = played.report


@pytest.mark.parametrize("level", ["L0", "L1"])
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class XEnv:\n    def reset(self: pass", r"SyntaxError: .* \(line 2 of the program\)"),
        ("import nonesuch\nclass XEnv: pass", r"No module named 'nonesuch' \(line 1 of the program\)"),
        ("class YEnv: pass", "the program defines no class XEnv"),
        ("class XEnv:\n    def reset(self): pass", "class XEnv has no method step"),
        ("exit()", "SystemExit"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_a_program_that_cannot_be_loaded_says_why(level: str, source: str, message: str) -> None:
    need(level)
    with session(source, level) as played, pytest.raises(ProgramError, match=message):
        _ = played.report


def test_ctrl_c_inside_this_process_is_the_users() -> None:
    with session(stepping("raise KeyboardInterrupt"), "L0") as played:
        slot = played.open()
        played.reset(slot, 0)
        with pytest.raises(KeyboardInterrupt):
            played.step(slot, "a")


# ---- wear and death


@needs_worker
def test_a_worn_out_worker_is_replaced_and_nobody_notices() -> None:
    burn = stepping(
        """
        count = 0
        for number in range(1_200_000): count += number
        return f"{action} {self.n}", 0.0, False, False, {}
        """
    )
    with session(burn, limits=Limits(cpu_seconds=1)) as played:
        slot, other = played.open(), played.open()
        played.reset(other, 0)
        played.step(other, "x")
        workers = set()
        for episode in range(6):
            played.reset(slot, episode)
            for turn in range(1, 8):
                assert played.step(slot, "a").observation == f"a {turn}"
                workers.add(played._link.generation)
        assert len(workers) > 1, "the program used too little processor time for this test"
        assert played.step(other, "y").observation == "y 2"


@needs_worker
def test_a_question_survives_a_worn_out_worker() -> None:
    with session(TROUBLE) as played:
        slot = played.open()
        played.reset(slot, 0)
        played.step(slot, "a")
        channel = played._link.start()
        channel.process._handle  # type: ignore[attr-defined]  # noqa: B018
        _kill_worker(played)
        assert played.solution(slot) is None
        _kill_worker(played)
        point = played.snapshot(slot)
        assert played.step(slot, "b").observation == "b 2 0"
        played.restore(slot, point)
        assert played.step(slot, "c").observation == "c 2 0"


def _kill_worker(played: Session) -> None:
    """Kill a session's worker behind its back."""
    watch = played.death_watch()
    handle = played._link.start().process._handle  # type: ignore[attr-defined]
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    assert watch.wait(5.0)
    watch.close()


@on_linux
@needs_worker
def test_a_killed_zygote_is_replaced() -> None:
    with session(TROUBLE, "L1") as played:
        slot = played.open()
        played.reset(slot, 3)
        played.step(slot, "a")
        for zygote in zygote_pool()._zygotes.values():
            os.killpg(zygote._process.pid, signal.SIGKILL)
            zygote._process.wait()
        assert played.step(slot, "b").observation == "b 2 3"
    with session(TROUBLE, "L1") as other:
        assert other.reset(other.open(), 0).observation == "ready"


@needs_worker
def test_a_session_can_be_used_again_after_close() -> None:
    played = session(TROUBLE)
    slot = played.open()
    played.reset(slot, 4)
    played.step(slot, "a")
    played.close()
    assert played.step(slot, "b").observation == "b 2 4"
    played.close()


@needs_worker
def test_closing_an_instance_never_fails() -> None:
    source = """
    import os
    class XEnv:
        def __init__(self): self.how = ""
        def reset(self, seed=None): return "ready", {}
        def step(self, action):
            self.how = action
            return "x", 0.0, False, False, {}
        def close(self):
            if self.how == "exit": os._exit(1)
            raise ValueError("no")
    """
    with session(source) as played:
        one, two, three = (played.open() for _ in range(3))
        played.reset_many([(one, 0), (two, 0), (three, 0)])
        played.step(two, "exit")
        played.close_slot(one)
        played.close_slot(two)
        assert played.step(three, "a").observation == "x"


@pytest.mark.parametrize("level", ["L3", "L2", "L1", "L0"])
def test_a_summoned_worker_plays_like_any_other(level: str) -> None:
    need(level)
    with session(TROUBLE, level) as summoned, session(TROUBLE, level) as other:
        summoned.summon()
        summoned.summon()  # it comes once
        for player in (summoned, other):
            player.reset(player.open(), 4)
            player.nudge()
        assert summoned.step(0, "a") == other.step(0, "a") == Transition("a 1 4", 0.5, False, False, {})
        assert summoned.report == other.report


@needs_worker
def test_a_summoned_worker_that_nobody_needs_leaves_nothing_behind() -> None:
    with session(TROUBLE) as warm_up:  # its zygote stays
        warm_up.reset(warm_up.open(), 0)
    before = settled()
    idle = session(TROUBLE)
    idle.summon()
    idle.close()
    assert eventually(lambda: children() <= before)


@needs_worker
def test_a_summoned_worker_says_why_it_cannot_load() -> None:
    with session("class XEnv:\n    1 / 0") as broken:
        broken.summon()
        with pytest.raises(ProgramError, match=r"ZeroDivisionError.* \(line 2 of the program\)"):
            broken.reset(broken.open(), 0)


@needs_worker
def test_nudges_change_nothing() -> None:
    with session(TROUBLE, limits=QUICK) as player:
        player.nudge()  # there is no worker yet
        player.reset(player.open(), 4)
        for _ in range(100):
            player.nudge()
        assert player.step(0, "a").observation == "a 1 4"
        player.begin("step", [(0, "b")])
        player.nudge()  # it is busy
        assert player.finish().observations == ["b 2 4"]
        with pytest.raises(ProgramTimeout):
            player.step(0, "hang")
        player.nudge()  # it is dead
        assert player.reset(0, 5).observation == "ready"
        assert player.step(0, "c").observation == "c 1 5"


@needs_worker
def test_a_nudge_to_a_killed_worker_is_quiet() -> None:
    with session(TROUBLE, "L1") as player:
        player.reset(player.open(), 4)
        watch = player.death_watch()
        for zygote in zygote_pool()._zygotes.values():
            os.killpg(zygote._process.pid, signal.SIGKILL)
        assert watch.wait(5)
        watch.close()
        player.nudge()
        assert player.step(0, "a").observation == "a 1 4"


@on_linux
@needs_worker
def test_many_sessions_leave_nothing_behind() -> None:
    def play(number: int) -> None:
        with session(stepping(f"return '{number}', 0.0, False, False, {{}}")) as played:
            slot = played.open()
            played.prepare()
            played.reset(slot, 0)
            assert played.step(slot, "x").observation == str(number)
            if number % 10 == 0:
                played.prepare()

    for number in range(5):
        play(number)
    zygotes = settled()
    descriptors = len(os.listdir("/proc/self/fd"))
    for number in range(60):
        play(number)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert eventually(lambda: children() == zygotes)


@on_linux
@needs_worker
def test_a_forgotten_session_leaves_nothing_behind() -> None:
    with session(TROUBLE) as played:
        played.reset(played.open(), 0)
    zygotes, descriptors = settled(), len(os.listdir("/proc/self/fd"))
    forgotten = session(TROUBLE)
    forgotten.reset(forgotten.open(), 0)
    assert len(children()) == len(zygotes) + 1
    del forgotten
    assert eventually(lambda: children() == zygotes)
    assert len(os.listdir("/proc/self/fd")) == descriptors


@needs_worker
def test_sessions_in_threads() -> None:
    errors: list[BaseException] = []

    def play(number: int) -> None:
        try:
            for _ in range(3):
                with session(TROUBLE) as played:
                    slot = played.open()
                    played.reset(slot, number)
                    for turn in range(1, 20):
                        assert played.step(slot, "a").observation == f"a {turn} {number}"
        except BaseException as error:  # reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=play, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@needs_worker
def test_begin_and_finish_overlap_sessions() -> None:
    with session(TROUBLE) as one, session(TROUBLE) as two:
        slots = [(played, played.open()) for played in (one, two)]
        for played, slot in slots:
            played.begin("reset", [(slot, 1)])
        assert [played.finish().observations for played, _ in slots] == [["ready"], ["ready"]]
        one.begin("step", [(0, "a")])
        with pytest.raises(SandboxError, match="twice"):
            one.begin("step", [(0, "a")])
        assert one.finish().observations == ["a 1 1"]
        one.begin("step", [])
        assert one.finish().observations == []


# ---- other processes


def run_python(code: str, **options: object) -> "subprocess.Popen[str]":
    prelude = f"""
    import os, signal, sys, time
    from spade_gym.programs.program import Manifest, Program
    from spade_gym.sandbox.session import Session
    program = Program({TROUBLE.source!r}, Manifest(name="X", setting="multi_turn", class_name="XEnv"))
    def start():
        played = Session(program, isolation={strongest()!r})
        slot = played.open()
        played.reset(slot, 5)
        played.step(slot, "a")
        return played, slot
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,  # type: ignore[call-overload]
    )  # fmt: skip


def output_of(code: str) -> str:
    out, error = run_python(code).communicate(timeout=60)
    assert error == "", error
    return str(out)


@needs_worker
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_trainer_leaves_its_parents_workers_alone() -> None:
    code = """
    import gc
    played, slot = start()
    child = os.fork()
    if child == 0:
        assert played.step(slot, "b").observation == "b 2 5"   # replayed in a worker of its own
        played.close()
        del played
        gc.collect()
        other, its = start()
        other.close()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert played.step(slot, "c").observation == "c 2 5"
    assert played._link.generation == 1
    print("fine")
    """
    assert output_of(code) == "fine\n"


@on_linux
@needs_worker
@pytest.mark.parametrize("with_child", [False, True], ids=["alone", "with a forked child that lives on"])
def test_a_killed_trainer_leaves_no_process_behind(with_child: bool) -> None:
    code = f"""
    played, slot = start()
    played.begin("step", [(slot, "hang")])
    if {with_child} and os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    print("up", flush=True)
    time.sleep(30)
    """
    trainer = run_python(code, start_new_session=True)
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "up\n"
    below = children(trainer.pid)
    assert len(below) >= (3 if with_child else 2)
    trainer.kill()
    trainer.wait()
    try:
        assert eventually(lambda: sum(map(_is_alive, below)) == (1 if with_child else 0))
    finally:
        if with_child:
            os.killpg(trainer.pid, signal.SIGKILL)
        for stream in (trainer.stdin, trainer.stdout, trainer.stderr):
            assert stream is not None
            stream.close()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@needs_worker
def test_ctrl_c_does_not_reach_the_workers() -> None:
    code = """
    played, slot = start()
    try:
        os.killpg(0, signal.SIGINT)
        time.sleep(5)
    except KeyboardInterrupt:
        pass
    assert played.step(slot, "b").observation == "b 2 5"
    assert played._link.generation == 1
    print("fine")
    """
    out, error = run_python(code, start_new_session=True).communicate(timeout=60)
    assert (out, error) == ("fine\n", "")


@needs_worker
def test_leaving_without_closing_is_quiet() -> None:
    assert output_of("start()\nprint('fine')") == "fine\n"
    assert output_of("played = start()\nsys.stdout.write('fine')") == "fine"


def test_importing_the_sandbox_starts_nothing() -> None:
    code = """
    import threading
    from spade_gym.sandbox import session, doctor, zygotes
    assert zygotes._POOLS == {} and threading.active_count() == 1
    print("fine")
    """
    assert output_of(code) == "fine\n"


# ---- settings


def test_no_level_is_refused_with_its_remedy() -> None:
    with pytest.raises(ValueError, match="L0, L1, L2, L3"):
        session(TROUBLE, "L9")
    with pytest.raises(ValueError, match="isolation must be"):
        Isolation.parse(True)
    assert Isolation.parse("l2") is Isolation.parse(2) is Isolation.L2
    assert Isolation.parse(None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("step_seconds", 0), ("turns", True), ("cpu_seconds", 1.5), ("text_chars", float("inf")), ("memory_bytes", 1)],
)
def test_limits_that_would_limit_nothing_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"limit {name} must be"):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_attempts_cannot_be_recorded_in_this_process() -> None:
    with session(TROUBLE, "L0", world=World(audit=True)) as played, pytest.raises(SandboxError, match="L1 or stronger"):
        played.accesses()
    with session(TROUBLE, "L0") as played, pytest.raises(SandboxError, match="audit=True"):
        played.accesses()


def test_without_isolation_programs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from spade_gym.sandbox import zygotes

    def refuse(*_: object) -> None:
        raise SandboxError("not on this machine")

    monkeypatch.setattr(zygotes.ZygotePool, "fork", refuse)
    zygotes._resolve.cache_clear()
    try:
        with session(TROUBLE) as played:
            played._link._isolation = None
            with pytest.raises(IsolationUnavailable, match=r"L3: not on this machine; L2: .*bubblewrap.*doctor"):
                played.reset(played.open(), 0)
    finally:
        zygotes._resolve.cache_clear()


# ---- save points of others


def test_a_save_point_is_known_to_its_own_worker_only() -> None:
    count = stepping("return f'{self.seed} {self.n}', 0.0, False, False, {}")
    with session(count) as first, session(count) as second:
        one, other = first.open(), second.open()
        first.reset(one, 1)
        first.step(one, "a")
        point = first.snapshot(one)
        second.reset(other, 2)
        for _ in range(3):
            second.step(other, "a")
        second.snapshot(other)
        second.restore(other, point)
        assert second.step(other, "a").observation == "1 2"
        first.close()
        first.reset(one, 5)
        first.step(one, "a")
        first.snapshot(one)
        first.restore(one, point)
        assert first.step(one, "a").observation == "1 2"
        another = first.open()
        first.reset(another, 7)
        first.restore(another, first.snapshot(one))
        assert first.step(another, "a").observation == first.step(one, "a").observation == "1 3"


# ---- memory that earlier episodes took


@needs_worker
@pytest.mark.parametrize(
    "reset",
    [
        "self.buffer = bytearray(30 << 20); self.me = self",
        "import logging; self.buffer = bytearray(20 << 20); logging.getLogger('x').addFilter(self)",
        "import atexit; self.buffer = bytearray(20 << 20); atexit.register(self.step)",
    ],
)
def test_what_earlier_episodes_left_behind_is_not_the_programs_fault(reset: str) -> None:
    what = stepping("return str(self.n), 0.0, False, False, {}", reset=f"{reset}\nreturn 'ready', {{}}")
    with session(what, limits=Limits(memory_bytes=400 << 20)) as played:
        slot, other = played.open(), played.open()
        played.reset(other, 0)
        for seed in range(40):
            played.reset(slot, seed)
            assert played.step(slot, "a").observation == "1"
        assert played.step(other, "a").observation == "1"


@needs_worker
def test_many_large_save_points_are_not_the_programs_fault() -> None:
    what = stepping("self.buffer[0] += 1; return str(self.buffer[0]), 0.0, False, False, {}",
                    reset="self.buffer = [0] * 1_000_000; return 'ready', {}")  # fmt: skip
    with session(what, limits=Limits(memory_bytes=400 << 20)) as played:
        slot = played.open()
        played.reset(slot, 0)
        points = []
        for turn in range(1, 60):
            assert played.step(slot, "a").observation == str(turn)
            points.append(played.snapshot(slot))
        for turn, point in ((1, points[0]), (59, points[58])):
            played.restore(slot, point)
            assert played.step(slot, "a").observation == str(turn + 1)


@needs_worker
def test_a_program_that_needs_too_much_memory_is_blamed_after_a_second_try() -> None:
    with session(stepping("bytearray(1 << 30)"), limits=Limits(memory_bytes=400 << 20)) as played:
        slot, other = played.open(), played.open()
        played.reset_many([(slot, 0), (other, 0)])
        generation = played._link.generation
        with pytest.raises(ProgramError, match="MemoryError") as caught:
            played.step(slot, "a")
        assert caught.value.reason == "memory"
        assert played._link.generation == generation + 1
        with pytest.raises(ProgramError, match="MemoryError"):
            played.step(slot, "a")
        assert played._link.generation == generation + 1


# ---- arguments


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limits(step_seconds=1e10), "limit step_seconds must be at most 604,800"),
        (lambda: Limits(cpu_seconds=2**80), "limit cpu_seconds must be at most"),
        (lambda: Limits(memory_bytes=2**63), "limit memory_bytes must be at most"),
        (lambda: Limits(text_chars=10**30), "limit text_chars must be at most"),
        (lambda: Limits(turns=10**30), "limit turns must be at most"),
        (lambda: Limits(load_seconds="1"), "limit load_seconds must be a positive finite number"),  # type: ignore[arg-type]
        (lambda: World(hash_seed=-1), "world hash_seed must be a whole number from 0 to 4294967295, got -1"),
        (lambda: World(hash_seed=2**32), "world hash_seed"),
        (lambda: World(hash_seed=1.5), "world hash_seed"),  # type: ignore[arg-type]
        (lambda: World(clock=float("nan")), "world clock"),
        (lambda: World(clock=float("inf")), "world clock"),
        (lambda: World(clock="x"), "world clock"),  # type: ignore[arg-type]
        (lambda: World(entropy=None), "world entropy"),  # type: ignore[arg-type]
        (lambda: World(random_state=2**70), "world random_state"),
        (lambda: World(audit="x"), "world audit must be True or False"),  # type: ignore[arg-type]
    ],
)
def test_limits_and_worlds_name_the_field_that_is_wrong(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"program": "x"}, "program"),
        ({"limits": 5}, "limits"),
        ({"world": 5}, "world"),
        ({"max_turns": "x"}, "max_turns"),
    ],
)
def test_a_session_names_the_argument_that_is_wrong(arguments: dict[str, object], name: str) -> None:
    with pytest.raises(TypeError, match=f"Session: {name} must be"):
        Session(**{"program": TROUBLE, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "use",
    [
        lambda played: played.step(7, "a"), lambda played: played.reset(7, 0), lambda played: played.snapshot(7),
        lambda played: played.close_slot(7), lambda played: played.past(7), lambda played: played.solution(7),
        lambda played: played.step_many([(played.slot, "a"), (7, "b")]), lambda played: played.begin("reset", [(7, 0)]),
        lambda played: played.restore(7, played.snapshot(played.slot)),
    ],
)  # fmt: skip
def test_an_unknown_slot_is_named_and_nothing_else_suffers(use: object) -> None:
    with session(TROUBLE) as played:
        played.slot = played.open()  # type: ignore[attr-defined]
        played.reset(played.slot, 0)  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="there is no slot 7"):
            use(played)  # type: ignore[operator]
        assert played.step(played.slot, "a").observation == "a 1 0"  # type: ignore[attr-defined]


def _reset_all(sessions: list[Session]) -> None:
    for each in sessions:
        each.reset(each.open(), 0)


@needs_worker
def test_too_few_descriptors_are_named_with_their_remedy() -> None:
    import resource

    with session(TROUBLE) as first:
        first.reset(first.open(), 0)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, limits[1]))
        others = [session(TROUBLE) for _ in range(20)]
        try:
            with pytest.raises(SandboxError, match=r"ulimit -n"):
                _reset_all(others)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            for other in others:
                other.close()
        assert first.step(0, "a").observation == "a 1 0"
        assert others[-1].reset(others[-1].open(), 0).observation == "ready"


@on_linux
@needs_worker
def test_a_killed_zygote_leaves_no_zombie_once_another_is_asked_for() -> None:
    with session(TROUBLE) as played:
        played.reset(played.open(), 0)
    pool = zygote_pool()
    zygote = next(iter(pool._zygotes.values()))
    os.killpg(zygote._process.pid, signal.SIGKILL)
    time.sleep(0.1)
    with session(TROUBLE) as played:
        played.reset(played.open(), 0)
    assert zygote._process.returncode is not None
