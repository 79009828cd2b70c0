"""Asyncio tasks of all kinds, that tell what they are and where they wait.

READY's tasks: {"name", "coroutine", "state", "frames": [[function, file, line], ...] innermost first}, as CPython's own cr_await,
cr_frame and f_lineno have it. The main task then reads stdin in the middle of a synchronous call, so it runs, and nothing else
moves. A line "churn" makes it create and end tasks without a pause until the next line.
"""
import asyncio
import asyncio.tasks
import inspect
import select
import sys
import threading
import types

import target

GATHERED = 3
DEEP = 60
NAMED = sys.version_info >= (3, 8)
NAMES = ["plain", "söme-名前-🐍", "new\nline", "escape\x1b[31m", "four KB " + "x" * 4096, "lone\ud800"]


# ---- the truth -------------------------------------------------------------------------------------------------------

def frame_of(awaitable):
    for prefix in "cr", "gi", "ag":
        if hasattr(awaitable, prefix + "_frame"):
            return getattr(awaitable, prefix + "_frame")
    return None


def awaited(awaitable):
    for prefix in "cr_await", "gi_yieldfrom", "ag_await":
        if hasattr(awaitable, prefix):
            return getattr(awaitable, prefix)
    return None


inside = {}  # {an object that hides what it stands for: that}


def chain(coro):
    """Its frames, outermost first; objects of C that stand for another can't be looked into, so their makers tell us."""
    found = []
    while coro is not None:
        coro = inside.get(type(coro).__name__, coro)
        frame = frame_of(coro)
        if frame is None:
            break
        found.append(told(frame))
        coro = awaited(coro)
    return found


def told(frame):
    return [target.name_of(frame.f_code), frame.f_code.co_filename, frame.f_lineno]


def running(frame, top):
    """From the frame that asks out to the coroutine's."""
    found = []
    while frame is not None:
        found.append(told(frame))
        if frame is top:
            return found
        frame = frame.f_back
    raise AssertionError("not on the stack")


def coroutine_of(task):
    return task.get_coro() if hasattr(task, "get_coro") else task._coro


def truth(tasks, asks):
    """Of all the tasks; @asks: the frame that waits for stdin."""
    told_of = []
    for task in tasks:
        coro = coroutine_of(task)
        runs = inspect.iscoroutine(coro) and coro.cr_running
        state = "done" if task.done() else "running" if runs else "waiting"
        frames = running(asks, coro.cr_frame) if runs else [] if task.done() else chain(coro)[::-1]
        told_of.append({"name": task.get_name().encode(errors="replace").decode() if NAMED else None, "state": state,
                        "coroutine": coro.__qualname__, "frames": frames, "of_c": isinstance(task, asyncio.Task)})
    return told_of


# ---- what waits ------------------------------------------------------------------------------------------------------

def forever():
    return asyncio.get_event_loop().create_future()


async def waits_for_a_future():
    await forever()


async def sleeps():
    await asyncio.sleep(3600)


async def outer():
    x = 1
    y = await middle(
        x,
    )
    return y


async def middle(x):
    for _ in range(3):
        await sleeps()
    return x


async def deep(n):
    if n:
        await deep(n - 1)
    else:
        await forever()


class Awaits:
    def __await__(self):
        yield from forever()


class AwaitsByWrapper:
    def __await__(self):
        wrapper = waits_for_a_future().__await__()
        return wrapper


async def awaits_objects():
    await Awaits()


async def awaits_a_wrapper():
    coro = waits_for_a_future()
    inside["coroutine_wrapper"] = coro
    await Wrapped(coro)


class Wrapped:
    def __init__(self, coro):
        self.coro = coro

    def __await__(self):
        return self.coro.__await__()


async def items():
    yield 1
    await sleeps()
    yield 2


async def iterates():
    source = items()
    inside["async_generator_asend"] = source
    async for _ in source:
        pass


async def locked(lock):
    async with lock:
        await forever()


@types.coroutine
def yields_itself(future, decoy):
    """The topmost value while it yields is a coroutine that it does not await."""
    future._asyncio_future_blocking = True
    return decoy, (yield future)


async def has_a_decoy():
    await yields_itself(forever(), NEVER)


async def never():
    pass


async def waits_for(task):
    await task


async def ends():
    return 1


async def fails():
    raise ValueError("x")


class Outer:
    class Inner:
        async def method(self):
            await forever()


class OwnTask(asyncio.Task):
    """With more attributes, and slots."""
    __slots__ = ("more", "of", "these")


async def tries():
    try:
        await forever()
    finally:
        await forever()


async def swallows(caught):
    """Waits a second time, in the handler of its cancellation."""
    try:
        await forever()
    except asyncio.CancelledError:
        caught.append(True)
        await sleeps()


NEVER = never()


def another_loop(ready, kept):
    async def elsewhere():
        kept.append(named(asyncio.get_event_loop().create_task(outer()), "elsewhere"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ready.set()
        await forever()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    kept.append(named(loop.create_task(elsewhere()), "root of another thread"))
    loop.run_forever()


def named(task, name):
    if NAMED and name is not None:
        task.set_name(name)
    return task


def make(loop):
    first = loop.create_task(outer())
    lock = asyncio.Lock()
    coros = [deep(DEEP), waits_for_a_future(), awaits_objects(), awaits_a_wrapper(), iterates(), locked(lock), locked(lock),
             has_a_decoy(), waits_for(first), Outer.Inner().method(), tries()]
    made = [first] + [loop.create_task(coro) for coro in coros]
    made += [named(loop.create_task(sleeps()), name) for name in NAMES]
    made.append(named(OwnTask(middle(1), loop=loop), "own"))
    made.append(asyncio.tasks._PyTask(outer(), loop=loop))
    return made


def wait_for_input():
    return sys.stdin.readline().strip()


def waits_in_calls(tasks):
    target.ready(tasks=truth(tasks, sys._getframe())) or sys.stdin.readline()


async def asks(tasks):
    tasks.append(named(asyncio.current_task(), "begun at once"))
    waits_in_calls(tasks)


def ask(tasks, loop):
    """From 3.12 on in a task that begins while it is made, in the middle of another."""
    if hasattr(asyncio, "eager_task_factory"):
        asyncio.Task(asks(tasks), loop=loop, eager_start=True)
    else:
        waits_in_calls(tasks)


def has_input():
    return bool(select.select([sys.stdin], [], [], 0)[0])


async def churn(loop):
    """Tasks come and go, and move. At each moment there are 20: some go when as many have come."""
    older = []
    while not has_input():
        newer = [loop.create_task(nap()) for _ in range(20)]
        if not older:
            print("CHURNS", flush=True)
        await end(older)
        await asyncio.sleep(0.003)
        older = newer
    await end(older)


async def end(tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def nap():
    while True:
        await asyncio.sleep(0)
        await asyncio.sleep(0.002)


async def main():
    loop = asyncio.get_event_loop()
    made = make(loop)
    caught = []
    cancelled, swallowing = loop.create_task(waits_for_a_future()), loop.create_task(swallows(caught))
    made += [cancelled, swallowing, loop.create_task(ends()), loop.create_task(fails())]
    for _ in range(4):
        await asyncio.sleep(0)
    cancelled.cancel()
    swallowing.cancel()
    for _ in range(4):
        await asyncio.sleep(0)
    made[-1].exception()
    ready = threading.Event()
    threading.Thread(target=another_loop, args=(ready, made), daemon=True).start()
    ready.wait()
    made.append(named(loop.create_task(outer()), "not begun"))
    made.append(named(asyncio.Task.current_task() if not hasattr(asyncio, "current_task") else asyncio.current_task(), "main"))
    ask(made, loop)
    await churn(loop)
    wait_for_input()


target.live()
asyncio.new_event_loop().run_until_complete(main())
