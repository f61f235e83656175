"""Probes that attack the trainer through what it asks for: time, memory, the wire, and the values that come back."""

from __future__ import annotations

from spade_gym.sandbox.probe import Probe

RESOURCES = (
    Probe(name="endless_loop", goal="hang the trainer", ends="timeout", step_seconds=0.3, body="while True: pass"),
    Probe(
        name="swallow_everything", goal="hang the trainer and catch whatever would end it",
        ends="timeout", step_seconds=0.3,
        body="""
        while True:
            try:
                while True: pass
            except BaseException: pass
        """,
    ),
    Probe(
        name="ignore_signals", goal="hang the trainer and ignore all signals", ends="timeout", step_seconds=0.3,
        body="""
        import signal
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
        """,
    ),
    Probe(
        name="real_sleep", goal="hang the trainer without using the processor", ends="timeout", step_seconds=0.3,
        body="import select; select.select([], [], [], 1e6)",
    ),
    Probe(
        name="regular_expression", goal="hang inside a C function", ends="timeout", step_seconds=0.3,
        body="import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
    ),
    Probe(
        name="big_integer", goal="hang inside arithmetic", ends="timeout", step_seconds=0.3,
        body="return str(len(bin(9 ** (9 ** 9))))",
    ),
    Probe(
        name="slow_drip", goal="keep the deadline off by a byte now and then", ends="timeout", step_seconds=0.3,
        body="""
        import select
        os.write(3, (1000).to_bytes(4, "little"))
        while True:
            os.write(3, b"\\x90")
            select.select([], [], [], 0.05)
        """,
    ),
    Probe(
        name="fast_drip", goal="keep the deadline off by bytes without end", step_seconds=0.3,
        body="""
        os.write(3, (400_000).to_bytes(4, "little"))
        while True: os.write(3, b"\\x90")
        """,
    ),
    Probe(
        name="empty_frames", goal="keep the deadline off by answers without results", ends="protocol",
        step_seconds=0.3,
        body="""
        frame = rows([], last=False)
        while True: os.write(3, frame)
        """,
    ),
    Probe(
        name="half_a_frame", goal="promise an answer and never finish it", ends="timeout", step_seconds=0.3,
        body="""
        os.write(3, rows(["x" * 100])[:50])
        while True: pass
        """,
    ),
    Probe(
        name="memory_bomb", goal="use up the machine's memory", ends="memory", step_seconds=20.0,
        body="""
        kept = []
        while True: kept.append(bytearray(50 << 20))
        """,
    ),
    Probe(
        name="giant_allocation", goal="use up the machine's memory at once", ends="memory",
        body="return REACHED + str(len(bytearray(64 << 30)))",
    ),
    Probe(
        name="print_flood", goal="fill the trainer's output", ends="timeout", step_seconds=0.3,
        body="while True: print('x' * 1000)",
    ),
    Probe(
        name="error_flood", goal="fill the trainer's error output", ends="timeout", step_seconds=0.3,
        body="""
        while True: sys.stderr.write('x' * 1000)
        """,
    ),
    Probe(
        name="recursion", goal="overflow the stack", ends="error",
        body="""
        def deeper(n): return deeper(n + 1)
        return deeper(0)
        """,
    ),
    Probe(
        name="native_recursion", goal="overflow the stack of the interpreter",
        body="""
        sys.setrecursionlimit(10 ** 9)
        nest = ()
        for _ in range(10 ** 5): nest = (nest,)
        return repr(nest)[:5]
        """,
    ),
    Probe(name="segfault", goal="crash", ends="crash", body="import ctypes; ctypes.string_at(0)"),
    Probe(name="abort", goal="crash by abort()", ends="crash", body="os.abort()"),
    Probe(name="exit_at_once", goal="exit without a word", ends="crash", body="os._exit(0)"),
    Probe(name="exit", goal="exit politely", ends="error", body="sys.exit(0)"),
    Probe(name="interrupt", goal="pass for the user's Ctrl-C", ends="error", body="raise KeyboardInterrupt"),
    Probe(
        name="base_exception", goal="raise what nobody catches", ends="error",
        body="""
        class Nobody(BaseException):
            __traceback__ = property(lambda self: 1 / 0)
            def __str__(self): raise Nobody()
            __repr__ = __str__
        raise Nobody()
        """,
    ),
    Probe(
        name="kill_itself", goal="kill itself", ends="any",
        body="os.kill(__import__('posix').getpid(), 9)",
    ),
    Probe(
        name="close_channel", goal="close the channel to the trainer", ends="crash",
        body="os.close(3); return 'closed'",
    ),
    Probe(
        name="alarm_between", goal="raise from a signal handler between requests", twice=True, own_goal=True,
        body="""
        import select, signal
        def fire(*_): raise SystemExit("between")
        signal.signal(signal.SIGALRM, fire)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return "armed"
        """,
    ),
    Probe(
        name="alarm_storm", goal="interrupt the worker without end", twice=True, own_goal=True,
        body="""
        import signal
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        return "armed"
        """,
    ),
    Probe(
        name="at_exit", goal="act when the worker ends",
        l1="blocked",
        body="""
        import atexit
        atexit.register(lambda: open(FOLDER + '/' + TOKEN, 'w'))
        return "armed"
        """,
    ),
)  # fmt: skip

WIRE = (
    Probe(
        name="forged_reward", goal="get a reward beyond the bound by a frame of its own", ends="error",
        body="os.write(3, rows([REACHED], [999.0])); return 'x'",
    ),
    Probe(
        name="forged_nan", goal="get a reward that is no number by a frame of its own", ends="protocol",
        body="os.write(3, rows([REACHED], [float('nan')])); return 'x'",
    ),
    Probe(
        name="forged_infinity", goal="get an infinite reward by a frame of its own", ends="protocol",
        body="os.write(3, rows([REACHED], [float('inf')])); return 'x'",
    ),
    Probe(
        name="forged_flags", goal="use flags that do not exist", ends="protocol",
        body="os.write(3, rows([REACHED], flags=[64])); return 'x'",
    ),
    Probe(
        name="forged_negative_flag", goal="use a negative flag", ends="protocol",
        body="os.write(3, rows([REACHED], flags=[-3])); return 'x'",
    ),
    Probe(
        name="forged_info_position", goal="write an info beside the results", ends="protocol",
        body="os.write(3, rows([REACHED], infos={10 ** 6: {'x': 1}})); return 'x'",
    ),
    Probe(
        name="forged_info_bytes", goal="pass an info that is no plain data", ends="protocol",
        body="os.write(3, rows([REACHED], infos={0: {'x': b'bytes'}})); return 'x'",
    ),
    Probe(
        name="forged_info_extension", goal="pass an info of an extension type", ends="protocol",
        body="""
        import msgspec
        os.write(3, rows([REACHED], infos={0: {'x': msgspec.msgpack.Ext(5, b'x')}}))
        return 'x'
        """,
    ),
    Probe(
        name="forged_info_depth", goal="overflow the trainer's stack by a deep info", ends="protocol",
        body="""
        deep = b"\\x91" * 200_000 + b"\\x90"
        body = rows([REACHED], infos={0: {"x": None}})[4:].replace(b"\\xa1x\\xc0", b"\\xa1x" + deep)
        os.write(3, len(body).to_bytes(4, "little") + body)
        return 'x'
        """,
    ),
    Probe(
        name="future_answer", goal="answer the next request before it is made", ends="protocol",
        body="os.write(3, rows([REACHED], ahead=1)); return 'x'",
    ),
    Probe(
        name="past_answer", goal="answer a request a second time", ends="protocol",
        body="os.write(3, rows([REACHED], ahead=-1)); return 'x'",
    ),
    Probe(
        name="too_many_results", goal="answer for more instances than were asked", ends="protocol",
        body="os.write(3, rows([REACHED] * 50)); return 'x'",
    ),
    Probe(
        name="uneven_results", goal="send columns of different lengths", ends="protocol",
        body="os.write(3, rows([REACHED, REACHED], [0.0], [0])); return 'x'",
    ),
    Probe(
        name="other_answer", goal="answer a step with a value", ends="protocol",
        body="""
        from spade_gym.sandbox.wire import Value, frame
        os.write(3, frame(Value(sequence(), False, REACHED, [])))
        return 'x'
        """,
    ),
    Probe(
        name="adapter_flood", goal="fill the trainer's memory with names", own_goal=True,
        body="os.write(3, rows(['x'], adapters=['name %d' % n for n in range(10_000)])); return 'x'",
    ),
    Probe(
        name="giant_header", goal="announce a frame of four gigabytes", ends="protocol",
        body="os.write(3, b'\\xf0\\xff\\xff\\xff'); return 'x'",
    ),
    Probe(
        name="garbage", goal="send bytes without meaning", ends="protocol",
        body="os.write(3, b'\\x10\\x00\\x00\\x00' + b'\\xc1' * 16); return 'x'",
    ),
    Probe(
        name="long_observation", goal="pass a longer observation than allowed by a frame of its own", ends="protocol",
        body="os.write(3, rows([REACHED + 'x' * 150_000])); return 'x'",
    ),
    Probe(
        name="unasked_frames", goal="fill the channel between requests", twice=True, own_goal=True,
        body="""
        import signal
        data = rows(["x"], ahead=2)
        def fire(*_):
            import fcntl
            os.write(3, data)
        signal.signal(signal.SIGALRM, fire)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return "armed"
        """,
    ),
)  # fmt: skip

VALUES = (
    Probe(
        name="nan_reward", goal="return a reward that is no number", ends="error", l0="blocked",
        body="return REACHED, float('nan'), False, False, {}",
    ),
    Probe(
        name="giant_reward", goal="return a reward beyond the bound", ends="error", l0="blocked",
        body="return REACHED, 1e300, False, False, {}",
    ),
    Probe(
        name="integer_reward", goal="return a reward that no float can hold", ends="error", l0="blocked",
        body="return REACHED, 10 ** 400, False, False, {}",
    ),
    Probe(
        name="giant_observation", goal="return 100 MB of text", ends="error", l0="blocked",
        body="return 'A' * (100 << 20)",
    ),
    Probe(
        name="giant_number", goal="return a number of 100,000 digits", ends="answer", l0="blocked",
        body="return 10 ** 100_000",
    ),
    Probe(
        name="reduce", goal="have the trainer run code through __reduce__", ends="answer", l0="blocked",
        body="""
        class Trap:
            def __reduce__(self): return eval, ("open(%r, 'w')" % (FOLDER + "/" + TOKEN),)
        return "x", 0.0, False, False, {"trap": Trap()}
        """,
    ),
    Probe(
        name="str", goal="act when its text is asked for", l0="blocked",
        body="""
        class Trap(str):
            def __str__(self): raise SystemExit(7)
            def encode(self, *_): raise SystemExit(7)
            __len__ = isascii = __eq__ = __hash__ = encode
        return Trap("x"), 0.0, False, False, {Trap("k"): Trap("v")}
        """,
    ),
    Probe(
        name="eq", goal="act when it is compared or hashed", l0="blocked",
        body="""
        class Trap:
            def __eq__(self, other): raise SystemExit(7)
            def __hash__(self): return 1
            __bool__ = __len__ = __iter__ = __repr__ = __lt__ = lambda self: 1 / 0
        return "x", 0.0, False, False, {Trap(): Trap(), "set": {Trap()}}
        """,
    ),
    Probe(
        name="del", goal="act when it is forgotten", ends="answer",
        body="""
        class Trap:
            def __del__(self): raise SystemExit(7)
        return "x", 0.0, False, False, {"trap": Trap()}
        """,
    ),
    Probe(
        name="class_property", goal="pass for another type", ends="error", l0="blocked",
        body="""
        class Trap:
            __class__ = property(lambda self: str)
        return Trap(), 0.0, False, False, {}
        """,
    ),
    Probe(
        name="tuple_subclass", goal="act when a result is unpacked", ends="error", l0="blocked",
        body="""
        class Trap(tuple):
            def __len__(self): raise SystemExit(7)
            __iter__ = __getitem__ = __len__
        return Trap(("x", 0.0, False, False, {}))
        """,
    ),
    Probe(
        name="deep_info", goal="return an info that is nested without end", ends="answer", l0="blocked",
        body="""
        nest = []
        for _ in range(100_000): nest = [nest]
        return "x", 0.0, False, False, {"nest": nest}
        """,
    ),
    Probe(
        name="circular_info", goal="return an info that holds itself", ends="answer", l0="blocked",
        body="""
        info = {}
        info["self"] = info
        return "x", 0.0, False, False, info
        """,
    ),
    Probe(
        name="wide_info", goal="return an info of many megabytes", ends="answer", l0="blocked",
        body="return 'x', 0.0, False, False, {'n%d' % n: 'x' * 100_000 for n in range(50)}",
    ),
    Probe(
        name="exploding_info", goal="return an info that grows when it is copied", ends="any", step_seconds=1.0,
        body="""
        nest = [0] * 1000
        for _ in range(8): nest = [nest] * 1000
        return "x", 0.0, False, False, {"nest": nest}
        """,
    ),
    Probe(
        name="lone_surrogates", goal="return text that no encoding can carry", ends="answer", l0="blocked",
        body="return '\\ud800 bad', 0.0, False, False, {'\\udfff': '\\ud800'}",
    ),
    Probe(
        name="odd_result", goal="return something that is no result", ends="error", l0="blocked",
        body="return (object(),) * 7",
    ),
    Probe(
        name="patched_builtins", goal="break the harness by patching Python", own_goal=True,
        body="""
        import builtins, json
        builtins.len = lambda x: 0
        builtins.isinstance = lambda *a: True
        json.dumps = builtins.str = builtins.tuple = builtins.BaseException = None
        return "patched"
        """,
    ),
    Probe(
        name="patched_harness", goal="replace the code that answers", own_goal=True, twice=True,
        body="""
        import gc, types
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType) and thing.__name__ in ("_failed", "describe", "play_rows"):
                thing.__code__ = (lambda *a, **k: None).__code__
        return "patched"
        """,
    ),
    Probe(
        name="other_program", goal="change another program that is being played", ends="answer",
        body="""
        import gc
        for thing in gc.get_objects():
            if isinstance(thing, dict) and thing.get("SIBLING_WORD") is not None:
                thing["SIBLING_WORD"] = TOKEN
                return REACHED
        return "not here"
        """,
    ),
    Probe(
        name="emptied_modules", goal="take the ground from under the harness", own_goal=True,
        body="sys.modules.clear(); return 'empty'",
    ),
)  # fmt: skip
