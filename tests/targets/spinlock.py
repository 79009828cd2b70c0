"""A thread waits for a spin lock again and again, in a loop that changes no register; the main thread holds it for a while.

Usage: spinlock.py
"""
import ctypes
import threading

import target

libc = ctypes.CDLL(None)
lock = ctypes.c_int()
turn = threading.Semaphore(0)


def wait():
    libc.pthread_spin_lock(ctypes.byref(lock))


def waiter():
    while True:
        turn.acquire()
        wait()
        libc.pthread_spin_unlock(ctypes.byref(lock))


def hold():
    libc.pthread_spin_lock(ctypes.byref(lock))
    turn.release()
    for _ in range(100000):
        pass
    libc.pthread_spin_unlock(ctypes.byref(lock))


target.live()
libc.pthread_spin_init(ctypes.byref(lock), 0)
threading.Thread(target=waiter, daemon=True).start()
target.ready()
while True:
    hold()
