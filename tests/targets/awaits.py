"""Asyncio tasks that await each other in each way there is; the innermost one works.

READY {"chains": [what a stack of work() must have from the innermost coroutine on: this file's functions, and "[task NAME]" behind
each task's, ...]}. With "several" two tasks await the one that works; with "eager" it is begun inside the one that makes it;
"threads": two event loops in two threads, each with chains of its own; "uvloop": by that loop; "numbered": one task awaits ten that
have the names that asyncio gives; "completed": one is waited for by as_completed().
"""
import asyncio
import sys
import threading
import time

import target

WAYS = sys.argv[1:]
NAMED = sys.version_info >= (3, 8)
GROUPS = sys.version_info >= (3, 11)


def work():
    end = time.process_time() + 0.005
    while time.process_time() < end:
        pass


async def innermost():
    while True:
        work()
        await asyncio.sleep(0)


def task(coroutine, name):
    return asyncio.create_task(coroutine, name=name) if NAMED else asyncio.ensure_future(coroutine)


# ---- the ways: each awaits a task with the next one's coroutine --------------------------------------------------------

async def direct(name, inner):
    await task(inner, name)


async def gathered(name, inner):
    await asyncio.gather(idle(), task(inner, name), idle())


async def waited(name, inner):
    await asyncio.wait([task(inner, name)])


async def in_time(name, inner):
    await asyncio.wait_for(task(inner, name), 3600)


async def shielded(name, inner):
    await asyncio.shield(task(inner, name))


async def grouped(name, inner):
    async with asyncio.TaskGroup() as group:
        group.create_task(idle(), name="idle")
        group.create_task(inner, name=name)


async def called_back(name, inner):
    """Callbacks that wait for nothing are nobody who awaits."""
    other = task(idle(), "other")
    made = task(inner, name)
    made.add_done_callback(other.cancel)
    made.add_done_callback(print)
    await made


async def idle():
    await asyncio.get_running_loop().create_future()


def way_names():
    return [f for f in (direct, gathered, waited, in_time, shielded, grouped, called_back) if f is not grouped or GROUPS]


def make(mark=""):
    """The coroutine of the outermost task, and the chain."""
    coroutine, chain = innermost(), ["innermost"]
    for n, way in enumerate(way_names()):
        name = "%s%d%s" % (way.__name__, n, mark)
        coroutine = way(name, coroutine)
        chain += [label(name), way.__name__]
    return coroutine, chain


def label(name):
    return "[task %s]" % name if NAMED else "[task]"


async def outermost(mark="", n=0):
    coroutine, chain = make(mark)
    if n:
        tell_soon(n)
    if NAMED and mark:
        asyncio.current_task().set_name("root" + mark)
    # Nobody asks for the name of the first task, which is a number until then.
    chains.append(chain + ["coroutine_in", "outermost", label("root" + mark if mark else "Task-1")])
    await coroutine_in(coroutine)


async def coroutine_in(coroutine):
    """One coroutine more in the same task."""
    await coroutine


async def several():
    made = task(innermost(), "shared")
    tell_soon(1)
    chains.append(["innermost", label("shared"), "[awaited by several tasks]"])
    await asyncio.gather(task(direct_of(made), "one"), task(direct_of(made), "two"))


async def direct_of(made):
    await made


async def completed():
    tell_soon(1)
    made = task(innermost(), "one")
    known = sys.version_info >= (3, 14)  # futures say who awaits them
    chains.append(["innermost", label("one")] + (["completed", label("Task-1")] if known else ["[awaiting tasks unknown]"]))
    for one in asyncio.as_completed([made]):
        await one


async def numbered():
    tell_soon(1)
    chains.append(["innermost", label("Task-*"), "numbered", label("Task-1")])
    await asyncio.gather(*(asyncio.ensure_future(innermost()) for _ in range(10)))


async def eager():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    asyncio.current_task().set_name("maker")
    chains.append(["eagerly", "[task eager]"])
    await asyncio.create_task(eagerly(), name="eager")


async def eagerly():
    asyncio.current_task().set_name("eager")  # the one that it is given comes later in some versions
    target.ready(chains=chains)
    while True:
        work()


def run(coroutine):
    if "uvloop" in WAYS:
        import uvloop
        loop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(coroutine)


def tell_soon(n):
    """READY once so many chains work."""
    asyncio.get_running_loop().call_later(0.1, tell, n)


def tell(n):
    if len(chains) < n:
        tell_soon(n)
    else:
        target.ready(chains=chains)


chains = []
if "threads" in WAYS:
    threading.Thread(target=run, args=(outermost("-thread"),), daemon=True).start()
    run(outermost("-main", 2))
elif "several" in WAYS:
    run(several())
elif "completed" in WAYS:
    run(completed())
elif "numbered" in WAYS:
    run(numbered())
elif "eager" in WAYS:
    run(eager())
else:
    run(outermost(n=1))
