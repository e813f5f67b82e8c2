"""stopped.py - stops threads of a running process one by one, as a debugger does: the process as a whole answers on."""
import contextlib
import ctypes
import os
import time

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def seconds_of(pid, thread):
    """What a thread has computed so far, in ticks."""
    with contextlib.suppress(OSError), open(f'/proc/{pid}/task/{thread}/stat') as f:
        return sum(map(int, f.read().rsplit(')', 1)[1].split()[11:13]))
    return 0


def computing(pid, threads, seconds=0.6):
    """The threads that compute most now."""
    before = {t: seconds_of(pid, t) for t in threads}
    time.sleep(seconds)
    used = {t: seconds_of(pid, t) - before[t] for t in threads}
    most = max(used.values())
    return [t for t in threads if most and used[t] * 4 >= most]


@contextlib.contextmanager
def stopped(threads):
    """Holds these threads while the body runs. OSError where that is not allowed."""
    held = []
    try:
        for t in threads:
            if libc.ptrace(PTRACE_SEIZE, t, None, None):
                raise OSError(ctypes.get_errno(), 'ptrace')
            held.append(t)
            libc.ptrace(PTRACE_INTERRUPT, t, None, None)
            os.waitpid(t, WALL)
        yield
    finally:
        for t in held:
            libc.ptrace(PTRACE_DETACH, t, None, None)
