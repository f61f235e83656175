"""Starts zygotes and asks them for workers (the trusted side)."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import select
import signal
import socket
import subprocess
import threading

from spade_gym.errors import IsolationUnavailable, SandboxError
from spade_gym.sandbox.base import Isolation, Limits
from spade_gym.sandbox.launch import Launch
from spade_gym.sandbox.wire import FORKED, ORDER, READY

_START_SECONDS = 60.0
_ANSWER_SECONDS = 20.0


class DeathWatch:
    """Waits until a process is really gone (for tests and benchmarks)."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def wait(self, seconds: float) -> bool:
        """Wait for at most ``seconds``; whether the process is dead."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def close(self) -> None:
        """Stop watching."""
        os.close(self._handle)


class TooManyFiles(SandboxError):
    """No descriptor is left; another zygote would not help."""


def _too_many(error: OSError) -> TooManyFiles:
    import resource  # not on every system that can run L0

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return TooManyFiles(
        f"no further worker can be started: {error.strerror} (each takes 2 descriptors, and this process may have "
        f"{limit}). Raise the limit (`ulimit -n`), close environments that are not needed, or play several instances "
        "of a program in one vector environment"
    )


def _end(pid: int, handle: int | None) -> None:
    """Kill a process by its handle, or where the system has none by its number; harmless when it is dead."""
    with contextlib.suppress(ProcessLookupError):
        if handle is not None:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        elif not hasattr(os, "pidfd_open"):
            os.kill(pid, signal.SIGKILL)
    if handle is not None:
        os.close(handle)


class WorkerProcess:
    """A worker as its session sees it: a socket, and a handle to kill it by.

    Attributes:
        connection: The socket; the worker is ready to serve once ``await_ready`` returned.
        pid: Process number inside the zygote's namespace; only for messages.
    """

    _handle: int | None = None
    _owner = 0

    def __init__(self, connection: socket.socket, pid: int, handle: int | None) -> None:
        self.connection = connection
        self.pid = pid
        self._handle = handle
        self._owner = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process started it; a forked child of the trainer must leave its parent's workers alone."""
        return self._owner == os.getpid()

    def await_ready(self) -> None:
        """Wait until the worker has locked itself in.

        Raises:
            SandboxError: A part of the jail failed.
        """
        self.connection.settimeout(_ANSWER_SECONDS)
        try:
            first = self.connection.recv(1)
            rest = b"" if first == READY else self.connection.recv(1000)
        except OSError as error:
            raise SandboxError(f"a new worker did not get ready: {error}") from error
        if first != READY:
            raise SandboxError(f"a new worker could not lock itself in: {rest.decode('utf-8', 'replace') or 'it died'}")
        self.connection.settimeout(None)

    def watch(self) -> DeathWatch:
        """Watch for the end of the process, beyond ``kill``."""
        if self._handle is None:
            raise SandboxError("this system has no process handles (pidfd), or the process was killed before")
        return DeathWatch(os.dup(self._handle))

    def kill(self) -> None:
        """Kill the process, now, and close the connection; harmless when it is already dead, or not ours."""
        self.connection.close()
        if self._handle is not None:
            if self.is_ours:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
            self._handle = None
        elif not hasattr(os, "pidfd_open") and self.pid and self.is_ours:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.pid = 0

    def __del__(self) -> None:
        """An environment that nobody closed leaves no process behind."""
        if hasattr(self, "connection"):  # one that was interrupted while it was made has nothing to end
            self.kill()


class Zygote:
    """One running zygote.

    Args:
        level: L1, L2 or L3.
        kind: What is preloaded, a key of ``preload.KINDS``.
        hash_seed: ``PYTHONHASHSEED`` of its workers.

    Raises:
        SandboxError: It did not start; the message says why.
    """

    def __init__(self, level: Isolation, kind: str, hash_seed: int) -> None:
        launch = Launch(level, kind, hash_seed)
        self._lock = threading.Lock()
        self._number = 0
        try:
            self._control, theirs = socket.socketpair()
        except OSError as error:
            raise _too_many(error) from error
        with theirs:
            try:
                self._process = subprocess.Popen(
                    launch.command(theirs.fileno()),
                    env=launch.environment,
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise _too_many(error) from error
                raise SandboxError(f"no {level.name} zygote ({kind}) could be started: {error}") from error
        try:
            self._await_ready(f"{level.name} zygote ({kind})")
        except BaseException:
            self.close()
            raise

    def _await_ready(self, name: str) -> None:
        assert self._process.stderr is not None
        self._control.settimeout(_START_SECONDS)
        try:
            answer = self._control.recv(1001)
        except OSError as error:
            raise SandboxError(f"the {name} did not start: {error}") from error
        if answer[:1] != READY:
            reason = answer[1:].decode("utf-8", "replace")
            if not reason:
                reason = self._process.stderr.read(2000).decode("utf-8", "replace").strip() or "it died without a word"
            raise SandboxError(f"the {name} did not start: {reason}")
        self._process.stderr.close()
        self._control.settimeout(_ANSWER_SECONDS)

    def fork(self, limits: Limits) -> WorkerProcess:
        """Fork a worker; it locks itself in while this returns (see ``WorkerProcess.await_ready``).

        Raises:
            SandboxError: The zygote is gone or does not answer.
        """
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _too_many(error) from error
        with self._lock:
            try:
                self._number += 1
                order = ORDER.pack(self._number, limits.cpu_seconds, limits.memory_bytes)
                socket.send_fds(self._control, [order], [theirs.fileno()])
                return self._forked(ours)
            except OSError as error:
                ours.close()
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS):
                    raise _too_many(error) from error
                raise SandboxError(f"the zygote does not answer: {error}") from error
            except BaseException:
                ours.close()
                raise
            finally:
                theirs.close()

    def _forked(self, connection: socket.socket) -> WorkerProcess:
        """Receive the answer to the latest order; one to an order that was interrupted is for a worker to kill."""
        while True:
            data, handles, _, _ = socket.recv_fds(self._control, FORKED.size, 1)
            handle = handles[0] if handles else None
            if len(data) < FORKED.size:
                if handle is not None:
                    os.close(handle)
                raise SandboxError("the zygote died")
            if handle is None and hasattr(os, "pidfd_open"):  # the kernel had no descriptor to put it into
                raise _too_many(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
            number, pid = FORKED.unpack(data)
            if number == self._number:
                return WorkerProcess(connection, pid, handle)
            _end(pid, handle)

    def is_dead(self) -> bool:
        """Whether the process ended, which nobody asked it to."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the zygote; its workers die with it."""
        self._control.close()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self._process.returncode is None:
            # Its own session and so its own group, which also holds what bubblewrap started. It has no state to save.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def abandon(self) -> None:
        """Let go of the parent's zygote in a forked child, so that it ends when the parent does."""
        self._control.close()
        self._process.poll()  # it is no child of this process, which poll finds out


class ZygotePool:
    """The zygotes of this process, started when first needed and again when one died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygotes: dict[tuple[Isolation, str, int], Zygote] = {}
        self._owner = os.getpid()
        self._hooked = False

    def fork(self, level: Isolation, kind: str, hash_seed: int, limits: Limits) -> WorkerProcess:
        """Fork a worker from the right zygote.

        Raises:
            SandboxError: The zygote does not start, or died twice.
        """
        key = (level, kind, hash_seed)
        zygote = self._get(key)
        try:
            return zygote.fork(limits)
        except TooManyFiles:
            raise
        except SandboxError:
            with self._lock:
                if self._zygotes.get(key) is zygote:
                    del self._zygotes[key]
            zygote.close()
        return self._get(key).fork(limits)

    def _get(self, key: tuple[Isolation, str, int]) -> Zygote:
        with self._lock:
            if not self._hooked:
                self._hooked = True
                os.register_at_fork(after_in_child=self._abandon)
                atexit.register(self.close)
            for other in [other for other, zygote in self._zygotes.items() if zygote.is_dead()]:
                self._zygotes.pop(other).close()  # which also takes it off the list of processes
            if key not in self._zygotes:
                self._zygotes[key] = Zygote(*key)
            return self._zygotes[key]

    def _abandon(self) -> None:
        for zygote in self._zygotes.values():
            zygote.abandon()
        self._zygotes = {}

    def close(self) -> None:
        """End all zygotes, unless they are those of a parent process."""
        if self._owner != os.getpid():
            return
        with self._lock:
            for zygote in self._zygotes.values():
                zygote.close()
            self._zygotes.clear()


#: By process number: a forked child needs its own, since sockets cannot be shared.
_POOLS: dict[int, ZygotePool] = {}


def zygote_pool() -> ZygotePool:
    """Return this process's zygotes."""
    process = os.getpid()
    return _POOLS.get(process) or _POOLS.setdefault(process, ZygotePool())


@functools.lru_cache(maxsize=8)
def _resolve(level: Isolation | None, process: int) -> Isolation:
    if level is Isolation.L0 or level is Isolation.L1:
        return level
    reasons = []
    for candidate in (level,) if level is not None else (Isolation.L3, Isolation.L2):
        try:
            worker = zygote_pool().fork(candidate, "standard", 0, Limits())
            try:
                worker.await_ready()
            finally:
                worker.kill()
            return candidate
        except SandboxError as error:
            reasons.append(f"{candidate.name}: {error}")
    raise IsolationUnavailable(
        "programs cannot be isolated here. "
        + "; ".join(reasons)
        + ". Remedies: on Linux install bubblewrap (apt install bubblewrap, or pip install 'spade-gym[jail]') or use a "
        "kernel with Landlock (5.13 or newer) and seccomp; `spade-gym doctor` shows what is missing. For programs that "
        "you trust, pass isolation='L1' (a process without a jail) or 'L0' (inside this process)."
    )


def resolve_level(level: Isolation | None) -> Isolation:
    """Return the level to use: the one asked for, or by default the stronger of L3 and L2 that works here.

    Raises:
        IsolationUnavailable: It does not work here; never falls below L2 on its own.
    """
    return _resolve(level, os.getpid())
