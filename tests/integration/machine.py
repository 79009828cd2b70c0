"""What tests ask of the machine and change in it: CPUs, cgroups, priorities, descriptors. All is undone after the test."""
import contextlib
import ctypes
import os
import resource

import harness
from harness import need_fifo, need_root

ONLINE = "/sys/devices/system/cpu/cpu1/online"
PR_CAPBSET_DROP, CAP_SYS_RESOURCE = 24, 24
FEW = 100  # descriptors: too few for events on 50 threads, enough for events on CPUs


def few_descriptors(most=FEW):
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def need_few():
    """Events on CPUs need a right, and FEW has to lie between what they and 50 threads need."""
    harness.need_root()
    cpus = len(os.sched_getaffinity(0))
    if not 64 + 4 * cpus <= FEW < 64 + 100 * cpus:
        raise harness.Skip("%d descriptors do not tell events on %d CPUs from events on threads" % (FEW, cpus))


def ours():
    return sorted(os.sched_getaffinity(0))


def need_two_cpus():
    if ours() != [0, 1] or os.cpu_count() != 2:
        raise harness.Skip("this test knows a machine of two CPUs only")


@contextlib.contextmanager
def one_cpu_less():
    """CPU 1 is offline for a moment, and back whatever happens."""
    need_root()
    if not os.path.exists(ONLINE):
        raise harness.Skip("CPU 1 can't be taken offline here")
    harness.change(ONLINE, "0")
    try:
        yield
    finally:
        harness.write(ONLINE, "1")


def cgroup(controller, **values):
    """A cgroup of the test's own (of v1, or of "v2"), and a command that starts others in it."""
    need_root()
    top, members = "/sys/fs/cgroup/" + controller, "cgroup.procs" if controller == "v2" else "tasks"
    if controller == "v2":
        with open("/proc/mounts") as file:
            top = next((words[1] for words in map(str.split, file) if words[2] == "cgroup2"), top)
    if not os.path.exists(os.path.join(top, members)):
        raise harness.Skip("no cgroup v2 here" if controller == "v2" else "no cgroup v1 controller '%s' here" % controller)
    path = os.path.join(top, "pysampled-test-%d" % os.getpid())
    try:
        os.mkdir(path)
    except OSError as error:
        raise harness.Skip("no cgroup can be made here: %s" % error.strerror)
    harness.cleanup(lambda: harness.until(lambda: not remove(path), "the cgroup is empty"))
    for name, value in values.items():
        harness.write(os.path.join(path, controller + "." + name), value)
    return path, ["sh", "-c", 'echo $$ > %s/%s && exec "$@"' % (path, members), "sh"]


def remove(path):
    try:
        os.rmdir(path)
    except OSError as error:
        return error


def need_rt_cgroups():
    if not os.path.exists("/sys/fs/cgroup/cpu/cpu.rt_runtime_us"):
        raise harness.Skip("this kernel has no real-time budgets of cgroups (RT_GROUP_SCHED)")


def be_urgent(target, priority, *tids):
    need_root()
    need_fifo()
    for tid in tids or harness.tasks(target.pid):
        os.sched_setscheduler(tid, os.SCHED_FIFO, os.sched_param(priority))
    harness.cleanup(target.process.kill)  # before anything that it could keep from running is waited for
