"""Thirteen system calls that block and that nobody restarts, each many times between bursts of work; says how many
ended by EINTR.

Usage: blocking.py handled|ignored [NAME TIMES PAUSE_NS]: what becomes of SIGURG, the signal that profilers like to
borrow; only the call of that name, so often and for so long each.
"""
import ctypes
import os
import select
import signal
import socket
import struct
import sys
import time

import gtspin
import target

ONLY = sys.argv[2] if len(sys.argv) > 2 else None
TIMES = int(sys.argv[3]) if ONLY else 300
PAUSE_NS = int(sys.argv[4]) if ONLY else 300000
EINTR = 4
SYS_FUTEX, IPC_PRIVATE, IPC_CREAT, IPC_RMID = 202, 0, 0o1000, 0  # x86-64


class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


libc = ctypes.CDLL(None, use_errno=True)
PAUSE = Timespec(0, PAUSE_NS)
pause = ctypes.byref(PAUSE)


def until():
    """The pause's end by the clock of the wall."""
    end = time.time_ns() + PAUSE_NS
    return ctypes.byref(Timespec(end // 10**9, end % 10**9))


def errno_of(result):
    return ctypes.get_errno() if result == -1 else 0


def calls():
    """{name: a call that blocks for the pause and returns its errno}"""
    reads, writes = os.pipe()
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, PAUSE_NS // 1000))
    epoll = select.epoll()
    epoll.register(reads, select.EPOLLIN)
    event, byte = ctypes.create_string_buffer(16), ctypes.create_string_buffer(1)
    semaphore, mutex, condition = (ctypes.create_string_buffer(64) for _ in range(3))
    libc.sem_init(semaphore, 0, 0)
    word = ctypes.c_int(0)
    system_v = libc.semget(IPC_PRIVATE, 1, 0o600 | IPC_CREAT)
    take = ctypes.create_string_buffer(struct.pack("Hhh", 0, -1, 0))
    waited = ctypes.create_string_buffer(128)
    libc.sigemptyset(waited)
    libc.sigaddset(waited, signal.SIGUSR2)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    pollfd = ctypes.create_string_buffer(struct.pack("ihh", reads, select.POLLIN, 0))

    def selects():
        readable = ctypes.create_string_buffer(128)
        readable[reads // 8] = 1 << reads % 8
        return errno_of(libc.select(reads + 1, readable, None, None,
                                    ctypes.create_string_buffer(struct.pack("ll", 0, PAUSE_NS // 1000))))

    def waits_on_condition():
        libc.pthread_mutex_lock(mutex)
        error = libc.pthread_cond_timedwait(condition, mutex, until())
        libc.pthread_mutex_unlock(mutex)
        return error

    def child():
        pid = os.fork()
        if pid == 0:
            time.sleep(PAUSE_NS / 1e9)
            os.write(writes, b"x")
            os._exit(0)
        return pid

    def reads_pipe():
        pid = child()
        error = errno_of(libc.read(reads, byte, 1))
        os.waitpid(pid, 0)
        return error

    def waits_for_child():
        error = errno_of(libc.waitpid(child(), None, 0))
        os.read(reads, 1)
        return error

    return system_v, {
        "nanosleep": lambda: errno_of(libc.nanosleep(pause, None)),
        "clock_nanosleep": lambda: libc.clock_nanosleep(time.CLOCK_REALTIME, 1, until(), None),
        "ppoll": lambda: errno_of(libc.ppoll(pollfd, 1, pause, None)),
        "select": selects,
        "epoll_wait": lambda: errno_of(libc.epoll_wait(epoll.fileno(), event, 1, 1)),
        "recv": lambda: errno_of(libc.recv(ours.fileno(), byte, 1, 0)),
        "sem_timedwait": lambda: errno_of(libc.sem_timedwait(semaphore, until())),
        "futex": lambda: errno_of(libc.syscall(SYS_FUTEX, ctypes.byref(word), 0, 0, pause, None, 0)),
        "pthread_cond_timedwait": waits_on_condition,
        "semtimedop": lambda: errno_of(libc.semtimedop(system_v, take, 1, pause)),
        "sigtimedwait": lambda: errno_of(libc.sigtimedwait(waited, None, pause)),
        "read": reads_pipe,
        "waitpid": waits_for_child,
    }


def main():
    target.live()
    handled = []
    signal.signal(signal.SIGURG, signal.SIG_IGN if sys.argv[1] == "ignored" else lambda *args: handled.append(1))
    gtspin.calibrate(50)
    system_v, blocking = calls()
    if ONLY:
        blocking = {ONLY: blocking[ONLY]}
    target.ready()
    sys.stdin.readline()
    interrupted = {}
    for name, call in blocking.items():
        for _ in range(TIMES):
            gtspin.spin_00()
            if call() == EINTR:
                interrupted[name] = interrupted.get(name, 0) + 1
    libc.semctl(system_v, 0, IPC_RMID)
    print("BLOCKED %d calls of %d times: interrupted %r, handled %d" % (len(blocking), TIMES, interrupted, len(handled)),
          flush=True)
    sys.stdin.readline()


main()
