# SPDX-License-Identifier: MIT
"""One window: a profiler attached to the idle target, a fixed amount of work, detached."""
import contextlib
import json
import math
import os
import select
import signal
import subprocess
import time

import stats

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "target.py")
SAMPLES_IN_A_GROUP = 10
ANSWER_TIMEOUT = 120
STOP_TIMEOUT = 20
NEAR = (0.85, 1.3)  # CPU time of a unit in parts of a usual one; no profiler adds 30 %
USUAL_SHARE = 0.1  # of the work without a profiler that makes a speed a usual one
QUIET_CPUS, QUIET_LOOKS, LOOK_S = 0.1, 3, 0.25
COMMON_AT_LEAST = 0.25  # of the work of each of two windows, for them to be compared
CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED, per process: include/linux/posix-timers.h

started = {}  # pid -> Popen: what this run started and has not yet reaped
nice = 0


class Failure(Exception):
    pass


def be_nice():
    if nice:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        with contextlib.suppress(OSError):
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(nice))


def start(argv, **streams):
    process = subprocess.Popen(argv, start_new_session=True, preexec_fn=be_nice, **streams)
    started[process.pid] = process
    return process


def end_all():
    for process in list(started.values()):
        if process.returncode is None and process.poll() is None:
            process.kill()
            process.wait()
    started.clear()


class Target:
    """The program of target.py under some interpreter."""

    def __init__(self, argv, depth, unit_ms, *mix):
        self.process = start(argv + [str(depth), str(unit_ms), *mix],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.unread = b""
        self.pid = self.process.pid
        about = self.answer(60)
        self.python = about["python"]
        if about["pid"] != self.pid:
            raise Failure("the target runs as another process than the one started")
        self.unit_ns = stats.median(self.run(60)["cpu"])

    def answer(self, timeout):
        end = time.monotonic() + timeout
        while b"\n" not in self.unread:
            left = max(0, end - time.monotonic())
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            if not ready:
                raise Failure("the target gave no answer in %d s" % timeout)
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise Failure("the target ended")
            self.unread += data
        line, self.unread = self.unread.split(b"\n", 1)
        return json.loads(line)

    def order(self, words):
        self.process.stdin.write(words.encode() + b"\n")
        self.process.stdin.flush()

    def run(self, units):
        self.order("RUN %d" % units)
        return self.answer(ANSWER_TIMEOUT)

    def watch(self, milliseconds):
        self.order("WATCH %d" % milliseconds)
        return self.answer(ANSWER_TIMEOUT)

    def units_in(self, seconds):
        return max(4, round(seconds * 1e9 / self.unit_ns))

    def close(self):
        with contextlib.suppress(OSError):
            self.order("EXIT")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
            started.pop(self.pid, None)


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for tid in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, tid)) as file:
                found += [int(word) for word in file.read().split()]
    return found


def cpu_ns(pid):
    """CPU time of the process, threads that ended included, and of its living children."""
    total = 0
    with contextlib.suppress(OSError):
        total = round(time.clock_gettime((~pid << 3) | CLOCK_OF_PROCESS) * 1e9)
    return total + sum(cpu_ns(child) for child in children(pid))


def busy_s():
    """CPU seconds that all programs of this machine have used."""
    with open("/proc/stat") as file:
        user, low, system, _, _, irq, soft = [int(t) for t in file.readline().split()[1:8]]
    return (user + low + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(seconds):
    """Wait until the machine does little else, but no longer than that."""
    end = time.monotonic() + seconds
    quiet = 0
    while quiet < QUIET_LOOKS and time.monotonic() < end:
        before = busy_s()
        time.sleep(LOOK_S)
        quiet = quiet + 1 if busy_s() - before < QUIET_CPUS * LOOK_S else 0


def reap(process):
    """Ask it to end, insist after a while; its resource use."""
    stop, asked = signal.SIGINT, time.monotonic()
    process.send_signal(stop)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            started.pop(pid, None)
            return usage
        if time.monotonic() - asked > STOP_TIMEOUT:
            stop, asked = signal.SIGKILL, time.monotonic()
            process.send_signal(stop)
        time.sleep(0.005)


def alive(process):
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


class Attached:
    """A profiler attached to a target for one window."""

    def __init__(self, profiler, target, rate, folder):
        self.profiler = profiler
        self.out = os.path.join(folder, "out-" + profiler.name)
        for stale in (self.out, self.out + ".log"):
            with contextlib.suppress(OSError):
                os.unlink(stale)
        with open(self.out + ".log", "wb") as log:
            self.process = start(profiler.command(target.pid, rate, self.out),
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        time.sleep(profiler.settle)
        if not alive(self.process):
            raise Failure("ended at once: " + self.last_words())

    def log(self):
        with open(self.out + ".log", errors="replace") as file:
            return file.read()

    def last_words(self):
        lines = [line.strip() for line in self.log().splitlines() if line.strip()]
        return lines[-1][:160] if lines else "without a word"

    def cpu_ns(self):
        return cpu_ns(self.process.pid)

    def stop(self):
        usage = reap(self.process)
        work, whole = self.profiler.count(self.out, self.log())
        return {"samples": work, "all_samples": whole, "rss_kb": usage.ru_maxrss,
                "total_ns": (usage.ru_utime + usage.ru_stime) * 1e9,
                "about": self.profiler.about(self.log())}


def group_size(target, rate):
    return max(1, math.ceil(SAMPLES_IN_A_GROUP * 1e9 / rate / target.unit_ns))


def window(target, profiler, rate, seconds, folder, watch_ms=0):
    """Times of the work without (profiler None) or with a profiler, and what that used. With
    watch_ms the target then also watches its own CPU clock for as long."""
    units = target.units_in(seconds)
    attached = Attached(profiler, target, rate, folder) if profiler else None
    if not attached:
        time.sleep(0.1)
    before, busy = attached.cpu_ns() if attached else 0, busy_s()
    begin = time.monotonic()
    times = target.run(units)
    result = {"window_s": time.monotonic() - begin, "work_ns": sum(times["cpu"])}
    result["steady_ns"] = attached.cpu_ns() - before if attached else 0
    ours = (result["work_ns"] + result["steady_ns"]) / 1e9
    result["others_cpus"] = max(0, busy_s() - busy - ours) / result["window_s"]
    result["sampled_ns"] = result["work_ns"]
    if watch_ms:
        watched = target.watch(watch_ms)
        result["sampled_ns"] += watched["cpu"]
        result["jumps_ns_per_s"] = sum(watched["jumps"]) / watched["cpu"] * 1e9
    if attached:
        result.update(attached.stop())
    size = min(group_size(target, rate), units // 4)
    for clock in ("cpu", "wall"):
        result[clock + "_ns"] = stats.grouped(times[clock][1:], size)
    result["units_in_group"] = size
    return result


class Work:
    """The times of the work of some windows, sorted by the speed the machine had.

    A virtual CPU may run at half its speed for seconds when the host's other tenants are busy,
    which is far more than what is measured here. So the usual CPU times of a unit of work
    (`speeds`) are found in the windows without a profiler, and times are compared with times
    at the same speed only.
    """

    def __init__(self, windows, speeds):
        self.by_speed = [{"cpu": [], "wall": []} for _ in speeds]
        self.groups = 0
        for window in windows:
            size = window["units_in_group"]
            self.groups += len(window["cpu_ns"])
            for cpu, wall in zip(window["cpu_ns"], window["wall_ns"]):
                for at_speed, usual in zip(self.by_speed, speeds):
                    if NEAR[0] < cpu / size / usual < NEAR[1]:
                        at_speed["cpu"].append(cpu / size)
                        at_speed["wall"].append(wall / size)
                        break

    def share(self, speed):
        return len(self.by_speed[speed]["cpu"]) / self.groups

    def unit_ns(self, clock, speed):
        return stats.median(self.by_speed[speed][clock])


def speeds_of(windows):
    """CPU times of a unit that are usual here, the most usual first."""
    times = [ns / window["units_in_group"] for window in windows for ns in window["cpu_ns"]]
    speeds, rest = [], times
    while len(rest) >= USUAL_SHARE * len(times):
        speeds.append(stats.usual(rest))
        rest = [ns for ns in rest if not NEAR[0] < ns / speeds[-1] < NEAR[1]]
    return speeds


def common_speed(one, other):
    """The speed at which both did most work; None if one did little at the other's."""
    shares = [min(one.share(i), other.share(i)) for i in range(len(one.by_speed))]
    best = max(range(len(shares)), key=shares.__getitem__, default=None)
    return best if best is not None and shares[best] >= COMMON_AT_LEAST else None
