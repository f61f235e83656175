"""Probes that reach for something outside their process: files, processes, the network, the kernel."""

from __future__ import annotations

from spade_gym.sandbox.probe import Probe

FILES = (
    Probe(
        name="read_file", goal="read a file of the user", l0="open", l1="open", quick=True,
        body="return REACHED + open(SECRET).read()",
    ),
    Probe(
        name="read_shadow", goal="read the password file", l0="root", l1="root",
        body="return REACHED + open('/etc/shadow').read()[:9]",
    ),
    Probe(
        name="read_passwd", goal="read the list of accounts", l0="open", l1="open",
        body="return REACHED + open('/etc/passwd').read()[:9]",
    ),
    Probe(
        name="read_home", goal="list the home folder, where keys lie", l0="open", l1="open",
        body="return REACHED + str(os.listdir(HOME))",
    ),
    Probe(
        name="read_descriptor", goal="read a file past Python's own functions", l1="open",
        body="""
        descriptor = libc().open(SECRET.encode(), 0)
        return REACHED + os.read(descriptor, 9).decode() if descriptor >= 0 else "refused"
        """,
    ),
    Probe(
        name="stat_file", goal="learn that a file exists and how large it is", l0="open", l1="open", l2="open",
        quick=True, body="return REACHED + str(os.stat(SECRET).st_size)",
    ),
    Probe(
        name="list_root", goal="list the root folder", l0="open", l1="open", quick=True,
        body="return REACHED + str(os.listdir('/'))",
    ),
    Probe(
        name="dot_dot", goal="climb out of the standard library's folder", l0="open", l1="open",
        body="return REACHED + open(os.path.dirname(os.__file__) + '/..' * 20 + SECRET).read()",
    ),
    Probe(
        name="symlink", goal="reach a file through a link of one's own", l1="open",
        body="""
        os.symlink(SECRET, FOLDER + "/" + TOKEN)
        return REACHED + open(FOLDER + "/" + TOKEN).read()
        """,
    ),
    Probe(
        name="hard_link", goal="give a file a second name", l1="open",
        body="os.link(SECRET, FOLDER + '/' + TOKEN); return REACHED",
    ),
    Probe(
        name="read_package", goal="read another package's source", l0="open", l1="open",
        body="return REACHED + open(PACKAGE).read()[:9]",
    ),
    Probe(
        name="write_file", goal="create a file", l1="open", quick=True,
        body="open(FOLDER + '/' + TOKEN, 'w'); return REACHED",
    ),
    Probe(
        name="write_tmp", goal="create a file in the temporary folder", l1="open",
        body="open(TEMPORARY + '/' + TOKEN, 'w'); return REACHED",
    ),
    Probe(
        name="write_home", goal="create a file in the home folder", l1="varies",
        body="open(HOME + '/' + TOKEN, 'w'); return REACHED",
    ),
    Probe(
        name="write_shared_memory", goal="create shared memory", l1="varies",
        body="open('/dev/shm/' + TOKEN, 'w'); return REACHED",
    ),
    Probe(
        name="write_library", goal="plant a module in the standard library", l1="varies",
        body="open(LIBRARY + '/' + TOKEN, 'w'); return REACHED",
    ),
    Probe(
        name="overwrite", goal="empty a file of the user", l1="open",
        body="open(VICTIM, 'w'); return REACHED",
    ),
    Probe(
        name="truncate", goal="empty a file without opening it", l1="open",
        body="os.truncate(VICTIM, 0); return REACHED",
    ),
    Probe(
        name="chmod", goal="change a file's permissions", l1="open",
        body="os.chmod(VICTIM, 0o4777); return REACHED",
    ),
    Probe(
        name="delete", goal="delete a file", l1="open",
        body="os.unlink(VICTIM); return REACHED",
    ),
    Probe(
        name="rename", goal="rename a file", l1="open",
        body="os.rename(VICTIM, FOLDER + '/' + TOKEN); return REACHED",
    ),
    Probe(
        name="make_folder", goal="create a folder", l1="open",
        body="os.mkdir(FOLDER + '/' + TOKEN); return REACHED",
    ),
)  # fmt: skip

PROCESSES = (
    Probe(
        name="environment", goal="find credentials in the environment", l0="open", quick=True,
        body="return REACHED + str(sorted(os.environ)) if os.environ else 'empty'",
    ),
    Probe(
        name="descriptors", goal="use a descriptor of the trainer", quick=True, ends="answer",
        body="""
        import stat
        found = []
        for descriptor in range(256):
            try:
                mode = os.fstat(descriptor)
            except OSError:
                continue
            if descriptor < 3 and not (stat.S_ISCHR(mode.st_mode) and os.minor(mode.st_rdev) == 3):
                found.append(descriptor)
            if descriptor > 3 or (descriptor == 3 and not stat.S_ISSOCK(mode.st_mode)):
                found.append(descriptor)
        return REACHED + str(found) if found else "only its own"
        """,
    ),
    Probe(
        name="heap", goal="find a secret of the trainer in memory", ends="answer",
        body="""
        import gc
        wanted = "".join(reversed(SECRET_REVERSED))
        for thing in gc.get_objects():
            if isinstance(thing, dict) and any(isinstance(v, str) and v == wanted for v in list(thing.values())):
                return REACHED
        return "nothing"
        """,
    ),
    Probe(
        name="trainer_environment", goal="read the environment of the trainer's process", l1="varies",
        body="return REACHED + open('/proc/%d/environ' % TRAINER).read()[:1]",
    ),
    Probe(
        name="trainer_memory", goal="read the memory of the trainer's process", l1="varies",
        body="open('/proc/%d/mem' % TRAINER, 'rb'); return REACHED",
    ),
    Probe(
        name="list_processes", goal="see other processes", l1="varies",
        body="return REACHED + str([name for name in os.listdir('/proc') if name.isdigit()])",
    ),
    Probe(
        name="ptrace", goal="debug the parent process", l1="varies", quick=True,
        body="return told(libc().ptrace(0x4206, os.getppid(), 0, 0))",
    ),
    Probe(
        name="process_vm", goal="read the memory of the parent process", l1="varies",
        body="""
        import ctypes
        pair = ctypes.c_size_t * 2
        buffer = ctypes.create_string_buffer(8)
        mine, theirs = pair(ctypes.addressof(buffer), 8), pair(id(object), 8)
        return told(libc().process_vm_readv(os.getppid(), mine, 1, theirs, 1, 0))
        """,
    ),
    Probe(
        name="pidfd_getfd", goal="take a descriptor of the parent process", l1="varies",
        body="""
        handle = libc().syscall(434, os.getppid(), 0)
        return told(libc().syscall(438, handle, 0, 0)) if handle >= 0 else "no handle"
        """,
    ),
    Probe(
        name="signal_parent", goal="send a signal to the parent process", l1="open", quick=True,
        body="os.kill(os.getppid(), 0); return REACHED",
    ),
    Probe(
        name="kill_stranger", goal="kill a process of the same user", l1="open",
        body="os.kill(STRANGER, 9); return REACHED",
    ),
    Probe(
        name="kill_sibling", goal="kill another program's worker", l1="open",
        body="os.kill(SIBLING, 9); return REACHED",
    ),
    Probe(
        name="kill_everybody", goal="signal all processes of the user by raw system calls",
        l1="unsafe",
        body="""
        told(libc().syscall(number(62, 129), -1, 0))
        return told(libc().syscall(number(200, 130), SIBLING, 9))
        """,
    ),
    Probe(
        name="signal_by_socket", goal="have the kernel kill a sibling when the next message comes (F_SETOWN)",
        l1="open", twice=True,
        body="""
        import fcntl, select
        fcntl.fcntl(3, 8, SIBLING)
        fcntl.fcntl(3, 4, fcntl.fcntl(3, 3) | 0o20000)
        os.write(3, rows(["armed"]))  # so that the next message comes while nobody waits for it
        select.select([], [], [], 0.2)
        return "armed"
        """,
    ),
    Probe(
        name="fork", goal="start a process", l1="root", quick=True,
        body="""
        child = os.fork()
        if child == 0:
            os._exit(0)
        return REACHED
        """,
    ),
    Probe(
        name="vfork", goal="start a process by a raw system call", l1="unsafe",
        body="return told(libc().syscall(number(58, 220), 17, 0, 0, 0, 0))",
    ),
    Probe(
        name="fork_bomb", goal="fill the machine with processes", l1="unsafe",
        body="""
        for _ in range(100):
            if os.fork() == 0:
                os._exit(0)
        return REACHED
        """,
    ),
    Probe(
        name="exec", goal="run a program", l1="open", quick=True,
        body="os.execv('/bin/sh', ['sh', '-c', ': > ' + FOLDER + '/' + TOKEN])",
    ),
    Probe(
        name="shell", goal="run a shell command", l1="root",
        body="return REACHED if os.system('exit 0') == 0 else 'refused'",
    ),
    Probe(
        name="subprocess", goal="run a program and read its output", l1="root",
        body="import subprocess; return REACHED + subprocess.check_output(['/bin/echo', 'x']).decode()",
    ),
    Probe(
        name="spawn", goal="run a program through posix_spawn", l1="root",
        body="return REACHED + str(os.posix_spawn('/bin/true', ['true'], {}))",
    ),
    Probe(
        name="thread", goal="start a thread", l1="root", quick=True,
        body="""
        import threading
        thread = threading.Thread(target=int)
        thread.start()
        return REACHED
        """,
    ),
    Probe(
        name="process_pool", goal="start processes through multiprocessing", l1="root",
        body="""
        import multiprocessing
        process = multiprocessing.get_context("fork").Process(target=int)
        process.start()
        return REACHED
        """,
    ),
    Probe(
        name="raise_limit", goal="lift its own limits", l1="varies", quick=True,
        body="""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        return REACHED
        """,
    ),
    Probe(
        name="raise_limit_raw", goal="lift its processor limit by a raw system call", l1="varies",
        body="""
        import ctypes
        return told(libc().syscall(number(302, 261), 0, 0, (ctypes.c_uint64 * 2)(2**63, 2**63), None))
        """,
    ),
    Probe(
        name="dumpable", goal="make itself open to debuggers and core dumps again", l1="open",
        body="return told(libc().prctl(4, 1, 0, 0, 0))",
    ),
    Probe(
        name="become_root", goal="become another user", l1="varies",
        body="os.setuid(0 if os.getuid() else 65534); return REACHED",
    ),
    Probe(
        name="change_root", goal="change its root folder", l1="varies",
        body="os.chroot('/'); return REACHED",
    ),
    Probe(
        name="set_user_program", goal="gain rights through a set-user-id program", l1="varies",
        body="os.execv('/usr/bin/su', ['su', '-c', ': > ' + FOLDER + '/' + TOKEN])",
    ),
)  # fmt: skip

NETWORK = (
    Probe(
        name="tcp", goal="connect to a TCP port", l0="open", l1="open", quick=True,
        body="import socket; socket.create_connection(('127.0.0.1', TCP_PORT), 1); return REACHED",
    ),
    Probe(
        name="udp", goal="send a datagram", l0="open", l1="open", quick=True,
        body="""
        import socket
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", UDP_PORT))
        return REACHED
        """,
    ),
    Probe(
        name="listen", goal="open a port", l1="open",
        body="import socket; socket.create_server(('127.0.0.1', 0)); return REACHED",
    ),
    Probe(
        name="raw_socket", goal="forge packets", l1="varies",
        body="import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); return REACHED",
    ),
    Probe(
        name="netlink", goal="configure the network", l1="varies",
        body="import socket; socket.socket(16, socket.SOCK_RAW, 0); return REACHED",
    ),
    Probe(
        name="unix_socket", goal="connect to a local service", l0="open", l1="open", quick=True,
        body="import socket; socket.socket(socket.AF_UNIX).connect(UNIX_PATH); return REACHED",
    ),
    Probe(
        name="abstract_socket", goal="connect to a local service that has no path", l0="open", l1="open",
        body="import socket; socket.socket(socket.AF_UNIX).connect(ABSTRACT); return REACHED",
    ),
    Probe(
        name="raw_socket_call", goal="make a socket by a raw system call", l1="open",
        body="return told(libc().syscall(number(41, 198), 2, 1, 0))",
    ),
    Probe(
        name="send_descriptor", goal="hand a descriptor to the trainer", l1="open", own_goal=True,
        body="""
        import array, socket
        channel = socket.socket(fileno=os.dup(3))
        channel.sendmsg([b""], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
        return REACHED
        """,
    ),
    Probe(
        name="name_service", goal="ask a name server", l1="varies",
        body="import socket; return REACHED + str(socket.getaddrinfo('localhost', 80))",
    ),
)  # fmt: skip

KERNEL = (
    Probe(
        name="x32", goal="slip past the filter by the x32 numbers", l1="varies",
        body="return told(libc().syscall(0x40000000 | 39))",
    ),
    Probe(
        name="io_uring", goal="have the kernel do calls for it", l1="varies",
        body="import ctypes; return told(libc().syscall(425, 4, ctypes.create_string_buffer(200)))",
    ),
    Probe(
        name="user_namespace", goal="become root in a namespace of its own", l1="varies",
        body="return told(libc().unshare(0x10000000))",
    ),
    Probe(
        name="mount", goal="mount a file system", l1="varies",
        body="""
        library = libc()
        if library.unshare(0x20000) < 0:
            return "refused"
        return told(library.mount(b"none", b"/mnt", b"tmpfs", 0, None))
        """,
    ),
    Probe(
        name="bpf", goal="load a program into the kernel", l1="varies",
        body="import ctypes; return told(libc().syscall(number(321, 280), 0, ctypes.create_string_buffer(128), 128))",
    ),
    Probe(
        name="perf", goal="watch the machine's counters", l1="varies",
        body="""
        import ctypes, struct
        attributes = ctypes.create_string_buffer(struct.pack("<IIQ", 1, 128, 0) + bytes(112), 128)
        return told(libc().syscall(number(298, 241), attributes, 0, -1, -1, 0))
        """,
    ),
    Probe(
        name="keyring", goal="read kernel keys", l1="varies",
        body="return told(libc().syscall(number(250, 219), 0, -3, 0, 0, 0))",
    ),
    Probe(
        name="userfaultfd", goal="stop the kernel at a page of its choice", l1="varies",
        body="return told(libc().syscall(number(323, 282), 1))",
    ),
    Probe(
        name="executable_memory", goal="run machine code of its own", l1="open", quick=True,
        body="import mmap; mmap.mmap(-1, 4096, prot=7); return REACHED",
    ),
    Probe(
        name="make_executable", goal="make written memory executable", l1="varies",
        body="""
        import ctypes, mmap
        memory = mmap.mmap(-1, 4096, prot=3)
        return told(libc().mprotect(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory))), 4096, 5))
        """,
    ),
    Probe(
        name="make_executable_by_key", goal="make memory executable by the newer call", l1="varies",
        body="""
        import ctypes, mmap
        memory = mmap.mmap(-1, 4096, prot=3)
        address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        return told(libc().syscall(number(329, 288), address, 4096, 5, -1))
        """,
    ),
    Probe(
        name="memory_file", goal="make a file without a name, to run it", l1="open",
        body="return told(libc().syscall(number(319, 279), b'x', 0))",
    ),
    Probe(
        name="shared_segment", goal="make memory that outlives it", l1="unsafe",
        body="return told(libc().syscall(number(29, 194), 0, 4096, 0o1600))",
    ),
    Probe(
        name="personality", goal="make all readable memory executable", l1="varies",
        body="return told(libc().personality(0x0400000))",
    ),
    Probe(
        name="terminal", goal="type into the user's terminal", l1="blocked",
        body="import fcntl; fcntl.ioctl(0, 0x5412, b'x'); return REACHED",
    ),
    Probe(
        name="native_library", goal="load machine code from a file", l1="varies",
        body="import ctypes; return REACHED + str(ctypes.CDLL('libutil.so.1'))",
    ),
)  # fmt: skip
