/* SPDX-License-Identifier: MIT
 *
 * stats - one list of counters: every lost, cut or uncertain stack has a name.
 *
 * Each recording has its own: who calls the recorder owns it, all threads of the recording
 * add to it with relaxed atomics, and anybody may read it at any time.
 */
#ifndef STATS_H
#define STATS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, sentence for -v) */
#define STATS_LIST                                                                           \
	X(lost, "samples lost: the kernel's ring or our queue was full")                     \
	X(queue_full, "of them: our queue to the resolver was full")                         \
	X(stack_dropped, "native stacks cut: our queues had no room for their bytes")        \
	X(side_lost, "records other than samples lost: a queue of ours was full")            \
	X(throttled, "times the kernel throttled the event")                                 \
	X(shed, "samples dropped because holding targets would pass the hold budget")        \
	X(truncated, "stacks cut: at --max-frames, or by CPython (throw)")                   \
	X(awaited_by_several, "stacks joined up to a task that several tasks await")         \
	X(awaiting_unknown, "stacks joined up to a task whose awaiting ones can't be read")  \
	X(tasks_unknown, "stacks of Pythons whose asyncio tasks can't be read: not joined")  \
	X(search_ended, "native stacks cut: too much on them looked like the way on")        \
	X(code_hangs, "native stacks cut at code in no file that hangs who reads it")        \
	X(late_backlog, "late: several samples waited when the reader came")                 \
	X(late_gap, "late: the thread ran on before it was held")                            \
	X(late_loop, "of them: in a loop, as counted instructions tell")                     \
	X(late_voluntary, "late: the thread gave up the CPU by itself, not to us")           \
	X(late_ran, "late: the thread ran again before the walk ended")                      \
	X(late_unwatched, "of them: maybe, on a CPU that was not watched yet")               \
	X(late_blind, "of them: maybe, while a ring of ours was too full for more records")  \
	X(late_unseen, "of them: maybe, after a thread that this kernel hides")              \
	X(late_noswitch, "late: no proof that the thread left the CPU")                      \
	X(late_nostop, "late: the signal that stops the thread did not come")                \
	X(late_capture, "late: nobody held the thread (capture, or reader elsewhere)")       \
	X(torn_fault, "torn: a read of the target failed")                                   \
	X(torn_broken, "torn: the interpreter was in the middle of an update")               \
	X(torn_badcode, "torn: a frame without a valid code object")                         \
	X(torn_moved, "torn: the stack changed while it was read")                           \
	X(torn_elsewhere, "torn: its state's frames lie on a stack not known to be its own") \
	X(torn_unseen, "torn: an evaluation loop on the native stack, but no Python frame")  \
	X(torn_notready, "torn: process seen before its interpreter was known")              \
	X(torn_exec, "torn: the process became another program before it was read")          \
	X(torn_quarantined, "torn: reads of this process, or at the end of one before it, hang") \
	X(waits_unread, "torn: waits that were over before their stack was read")            \
	X(gil_none, "samples of threads without the GIL, left out by --mode gil")            \
	X(gil_unknown, "samples of which that can't be told, left out by --mode gil")        \
	X(foreign, "samples of other processes, ignored")                                    \
	X(unknown, "samples of events that were closed since, ignored")                      \
	X(unattached, "new threads that could not be given events")                          \
	X(undecided, "threads left alone: born while events were opened, maybe with events") \
	X(stuck_reads, "reads that hung and whose reader was replaced")                      \
	X(stalled, "times a reader got no CPU for 20 ms")                                    \
	X(no_line, "addresses of native code for which there is no source line")             \
	X(bad_debug,                                                                         \
	  "files whose debug information could not be read, to its end or for want of memory or processes") \
	X(unnamed, "Python functions, stacks or threads shown as [unnamed]: --memory was used up")   \
	X(unmapped, "maps of code that were not kept: --memory was used up, no names there") \
	X(remapped, "maps of code that were not kept: a process changes too many, no names there") \
	X(unlisted, "processes with too many maps: of what they had mapped before no names") \
	X(renamed, "new names of threads that were not kept: a process gives too many")      \
	X(halted, "processes that a SIGSTOP stopped while --capture stop traced them")       \
	X(unplaced, "native frames without source lines: too many files, or --memory was used up") \
	X(mangled, "long native names shown as compilers write them: some have no answer")   \
	X(nameless, "native names shown as [unknown] or [anon]: --memory was used up")       \
	X(unread,                                                                            \
	  "files, maps and code without names: no memory, descriptors, threads or size of files (ulimit -f)") \
	X(bad_file, "times a process that read a foreign file ended: no names from it then") \
	X(unlined, "Python functions without some of their lines in perf.data: too many")    \
	X(elided, "stacks in perf.data without their middle: deeper than perf shows")        \
	X(elsewhere, "processes with mounts or a root of their own, by names of first threads") \
	X(unwritten, "samples taken that are not in a file, of the one that lacks most")      \
	X(outside, "samples before the recording began or after its end, ignored")

struct stats {
#define X(name, text) _Atomic uint64_t name;
	STATS_LIST
#undef X
};

#define STATS_ADD(stats, name, n) \
	atomic_fetch_add_explicit(&(stats)->name, (n), memory_order_relaxed)
#define STATS_GET(stats, name) atomic_load_explicit(&(stats)->name, memory_order_relaxed)

/* Name, value and sentence of counter @i of @s, or NULL past the end. */
const char *stats_at(const struct stats *s, size_t i, uint64_t *value, const char **text);

#endif
