"""Run a server that cannot outlive the process that asked for it. A program: nothing imports it.

    python tie.py direct PARENT SIGNAL UID GID command...  Linux: the kernel sends SIGNAL when the parent dies
    python tie.py guard  PARENT SIGNAL UID GID command...  anywhere: stay, and send SIGNAL when stdin ends

A separate program is used because code between fork and exec (`preexec_fn`) is unsafe in a process with
threads, and because the account must change *before* the death signal is set: changing it clears the signal.
`direct` becomes the server by exec and costs nothing afterwards; its signal is bound to the *thread* that
started it, so only a main thread may use it. UID -1 keeps the account. Exit status 64 means that the parent
was gone before the server began.
"""

import ctypes  # imported while we still are who can read it
import os
import select
import signal
import sys

PARENT_GONE = 64
_PR_SET_PDEATHSIG = 1
_KILL_AFTER = 10.0  # seconds that a server gets to obey its signal


def become(uid: int, gid: int) -> None:
    """Change to another account for good. -1 keeps the present one."""
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def die_with_parent(parent: int, number: int) -> None:
    """Ask the Linux kernel for signal `number` when the parent dies; leave when it is dead already."""
    if not sys.platform.startswith("linux"):
        return
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os._exit(PARENT_GONE)


def run(command: list[str]) -> None:
    """Become `command`. Python ignores SIGPIPE and SIGXFSZ, which exec would hand on to the server."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(command[0], command)


def guard(number: int, uid: int, gid: int, command: list[str]) -> int:
    """Run `command` as a child until it ends or stdin does; return its exit status."""
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda received, frame: asked.append(received))
    signal.signal(signal.SIGCHLD, lambda received, frame: None)
    me = os.getpid()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        for received in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(received, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        become(uid, gid)
        die_with_parent(me, number)
        run(command)
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if asked or (0 in ready and not os.read(0, 1)):
            return stop(child, number, wake)
        if wake in ready:
            os.read(wake, 64)


def stop(child: int, number: int, wake: int) -> int:
    """Send `number` to the child, then SIGKILL to a child that does not obey; return its exit status."""
    os.kill(child, number)
    while True:
        ready, _, _ = select.select([wake], [], [], _KILL_AFTER)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if ready:
            os.read(wake, 64)
        else:
            os.kill(child, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    mode, (parent, number, uid, gid), command = (arguments[0], map(int, arguments[1:5]), arguments[5:])
    if mode == "guard":
        return guard(number, uid, gid, command)
    become(uid, gid)
    die_with_parent(parent, number)
    run(command)
    return 1  # not reached: run() replaces this program


if __name__ == "__main__":
    sys.exit(abs(main(sys.argv[1:])))
