/* SPDX-License-Identifier: MIT
 *
 * harden_rows - the system calls that are allowed: ALLOW(NAME, ROLES, CHECKS...). All checks
 * of a row must hold; a call may have several rows. What is called most stands first. A call
 * of which no row holds fails with EPERM, one that is not here with ENOSYS, as in a kernel
 * that does not have it: libc then takes an older one whose arguments a filter can see.
 *
 * Not here, because a filter can't see what they do: clone3, openat2, io_uring, execve.
 */
#define FILES (HARDEN_SERVE | HARDEN_FILE)
#if HARDEN_RUNTIME /* of a sanitizer, or of coverage, which needs more than we do */
#define ALL UINT16_MAX
#else
#define ALL (UINT16_MAX & ~FILES)
#endif
#define ASKERS \
	(HARDEN_RECORD | HARDEN_LOOK | HARDEN_CONTROL | HARDEN_RESOLVER | HARDEN_PROBE)
#define LINES (HARDEN_LINES | HARDEN_FETCH)
#define MAIN (HARDEN_RECORD | HARDEN_LOOK)
#define WRITERS \
	(HARDEN_RECORD | HARDEN_CONTROL | HARDEN_RESOLVER | HARDEN_FETCH | HARDEN_CONVERT)
#define LOOKERS (MAIN | HARDEN_CONTROL | HARDEN_READER | HARDEN_RESOLVER | HARDEN_PROBE)
#define READERS (HARDEN_REPORT | HARDEN_CONVERT)
#define OPENERS (LOOKERS | HARDEN_TRACER | LINES | READERS)
#define EVENTS (MAIN | HARDEN_CONTROL | HARDEN_TRACER)

/* memory of others: reading it is all there is */
ALLOW(process_vm_readv, LOOKERS)

/* foreign files: what is given is read, and what was found is handed back in memory */
ALLOW(pread64, HARDEN_FILE)
ALLOW(recvmsg, FILES)
ALLOW(sendmsg, FILES)
ALLOW(writev, HARDEN_FILE)
ALLOW(close, FILES)
ALLOW(mmap, HARDEN_FILE)
ALLOW(munmap, HARDEN_FILE)
ALLOW(mremap, HARDEN_FILE)
ALLOW(brk, FILES)
ALLOW(madvise, HARDEN_FILE)
ALLOW(fstat, HARDEN_FILE)
ALLOW(newfstatat, HARDEN_FILE, HAS(3, AT_EMPTY_PATH))
ALLOW(lseek, HARDEN_FILE)
ALLOW(memfd_create, HARDEN_FILE)
ALLOW(fcntl, HARDEN_FILE, IS(1, F_ADD_SEALS))
ALLOW(clock_gettime, FILES)
ALLOW(futex, FILES)
ALLOW(getrandom, FILES)
ALLOW(restart_syscall, FILES)
ALLOW(rt_sigreturn, FILES)
ALLOW(exit_group, FILES)
ALLOW(seccomp, HARDEN_SERVE)
ALLOW(getpid, HARDEN_SERVE)
ALLOW(getppid, HARDEN_SERVE)
ALLOW(wait4, HARDEN_SERVE)
ALLOW(clock_nanosleep, HARDEN_SERVE)
ALLOW(rt_sigaction, HARDEN_SERVE)
ALLOW(rt_sigprocmask, HARDEN_SERVE)
ALLOW(set_robust_list, HARDEN_SERVE)
ALLOW(set_tid_address, HARDEN_SERVE)
ALLOW(rseq, HARDEN_SERVE)
ALLOW(gettid, HARDEN_SERVE)
ALLOW(prctl, HARDEN_SERVE, IS(0, PR_SET_PDEATHSIG))
ALLOW(prlimit64, HARDEN_SERVE, IS(0, 0))
ALLOW(clone, HARDEN_SERVE, IN(0, CLONE_VM | CLONE_THREAD | CLONE_PARENT | CLONE_PTRACE, 0))
#ifdef __NR_setrlimit
ALLOW(setrlimit, HARDEN_SERVE)
#endif

/* our own memory, threads, time and signals */
ALLOW(read, ALL)
ALLOW(write, ALL)
ALLOW(futex, ALL)
ALLOW(close, ALL)
ALLOW(pread64, OPENERS)
ALLOW(clock_nanosleep, ALL)
ALLOW(clock_gettime, ALL)
ALLOW(mmap, ALL)
ALLOW(munmap, ALL)
ALLOW(mremap, ALL)
ALLOW(mprotect, ALL)
ALLOW(madvise, ALL)
ALLOW(brk, ALL)
ALLOW(mincore, ALL)
ALLOW(mlock, ALL)
ALLOW(munlock, ALL)
ALLOW(membarrier, ALL)
ALLOW(nanosleep, ALL)
ALLOW(clock_getres, ALL)
ALLOW(gettimeofday, ALL)
ALLOW(sched_yield, ALL)
ALLOW(getcpu, ALL)
ALLOW(getpid, ALL)
ALLOW(getppid, ALL)
ALLOW(gettid, ALL)
ALLOW(getuid, ALL)
ALLOW(geteuid, ALL)
ALLOW(getgid, ALL)
ALLOW(getegid, ALL)
ALLOW(getrandom, ALL)
ALLOW(sysinfo, ALL)
ALLOW(uname, ALL)
ALLOW(getrusage, ALL)
ALLOW(times, ALL)
ALLOW(rt_sigaction, ALL)
ALLOW(rt_sigprocmask, ALL)
ALLOW(rt_sigreturn, ALL)
ALLOW(rt_sigtimedwait, ALL)
ALLOW(sigaltstack, ALL)
ALLOW(restart_syscall, ALL)
ALLOW(set_robust_list, ALL)
ALLOW(set_tid_address, ALL)
ALLOW(rseq, ALL)
ALLOW(exit, ALL)
ALLOW(exit_group, ALL)
ALLOW(seccomp, ALL)
ALLOW(prctl, ALL, IS(0, PR_SET_NAME))
ALLOW(prctl, ALL, IS(0, PR_GET_NAME))
ALLOW(prctl, ALL, IS(0, PR_GET_DUMPABLE))
ALLOW(prctl, ALL, IS(0, PR_SET_PDEATHSIG))
ALLOW(prctl, ALL, IS(0, PR_SET_NO_NEW_PRIVS))
ALLOW(prctl, ALL, IS(0, PR_SET_SECCOMP))
ALLOW(prctl, ALL, IS(0, PR_SET_VMA))
ALLOW(prctl, ALL, IS(0, PR_CAPBSET_READ))
ALLOW(tgkill, ALL, IS_US(0))
ALLOW(timer_create, ALL)
ALLOW(timer_settime, ALL)
ALLOW(timer_delete, ALL)
ALLOW(prlimit64, ALL, IS(0, 0))
ALLOW(prlimit64, ALL, IS(2, 0), HIGH(2, 0)) /* asks */
ALLOW(clone, LOOKERS | HARDEN_TRACER | HARDEN_FETCH | READERS, HAS(0, CLONE_THREAD))
#ifdef __NR_arch_prctl
ALLOW(arch_prctl, ALL)
#endif
#ifdef __NR_riscv_flush_icache
ALLOW(riscv_flush_icache, ALL)
#endif
#ifdef __NR_riscv_hwprobe
ALLOW(riscv_hwprobe, ALL)
#endif
#ifdef __NR_time
ALLOW(time, ALL)
#endif
#ifdef __NR_getrlimit
ALLOW(getrlimit, ALL)
#endif
#ifdef __NR_setrlimit
ALLOW(setrlimit, ALL)
#endif

/* how it is scheduled, and how others are */
ALLOW(getpriority, ALL)
ALLOW(setpriority, ALL, IS(0, PRIO_PROCESS), IS(1, 0))
ALLOW(sched_getscheduler, ALL)
ALLOW(sched_getparam, ALL)
ALLOW(sched_getattr, ALL)
ALLOW(sched_getaffinity, ALL)
ALLOW(sched_get_priority_max, ALL)
ALLOW(sched_get_priority_min, ALL)
ALLOW(sched_setscheduler, ALL, IS(0, 0))
ALLOW(sched_setaffinity, ALL, IS(0, 0))
ALLOW(sched_setattr, ALL, IS(0, 0))
/* A reader that must end gives up what it got, by the thread that ends it. */
ALLOW(sched_setscheduler, MAIN | HARDEN_CONTROL)
ALLOW(sched_setaffinity, MAIN | HARDEN_CONTROL)
ALLOW(capget, ALL)

/* descriptors */
ALLOW(lseek, ALL)
ALLOW(readv, ALL)
ALLOW(writev, ALL)
ALLOW(fstat, ALL)
ALLOW(newfstatat, ALL)
ALLOW(statx, ALL)
ALLOW(dup, ALL)
ALLOW(dup3, ALL)
ALLOW(ppoll, ALL)
ALLOW(pselect6, ALL)
ALLOW(epoll_create1, ALL)
ALLOW(epoll_ctl, ALL)
ALLOW(epoll_pwait, ALL)
ALLOW(eventfd2, ALL)
ALLOW(pipe2, ALL)
ALLOW(signalfd4, MAIN)
ALLOW(memfd_create, OPENERS)
ALLOW(fcntl, ALL, IS(1, F_DUPFD))
ALLOW(fcntl, ALL, IS(1, F_DUPFD_CLOEXEC))
ALLOW(fcntl, ALL, IS(1, F_GETFD))
ALLOW(fcntl, ALL, IS(1, F_SETFD))
ALLOW(fcntl, ALL, IS(1, F_GETFL))
ALLOW(fcntl, ALL, IS(1, F_SETFL))
ALLOW(fcntl, ALL, IS(1, F_ADD_SEALS))
ALLOW(fcntl, HARDEN_TRACER, IS(1, F_SETSIG), IS(2, SIGURG))
ALLOW(fcntl, HARDEN_TRACER, IS(1, F_SETSIG), IS(2, SIGWINCH))
ALLOW(fcntl, HARDEN_TRACER, IS(1, F_SETOWN_EX))
ALLOW(ioctl, OPENERS & ~READERS, IN(1, 0xff00, '$' << 8)) /* perf's */
ALLOW(ioctl, ALL, IS(1, TCGETS))
ALLOW(ioctl, ALL, IS(1, TIOCGWINSZ))
#ifdef __NR_dup2
ALLOW(dup2, ALL)
#endif
#ifdef __NR_poll
ALLOW(poll, ALL)
#endif
#ifdef __NR_select
ALLOW(select, ALL)
#endif
#ifdef __NR_epoll_wait
ALLOW(epoll_wait, ALL)
#endif

ALLOW(openat, HARDEN_OPEN, IN(2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY))
ALLOW(pread64, HARDEN_OPEN)
ALLOW(readlinkat, HARDEN_OPEN)
ALLOW(sendmsg, HARDEN_OPEN)
ALLOW(recvmsg, HARDEN_OPEN)

/* Files are opened for reading. Only what is new is opened for writing, and a process's memory
 * is not; but outputs that were named, such as a FIFO, until a recording runs or one is read,
 * and by who downloads. */
ALLOW(openat, OPENERS, IN(2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY))
ALLOW(openat, WRITERS, HAS(2, O_CREAT | O_EXCL))
ALLOW(openat, HARDEN_RECORD | HARDEN_FETCH | HARDEN_CONVERT)
ALLOW(faccessat, OPENERS)
ALLOW(faccessat2, OPENERS)
ALLOW(readlinkat, OPENERS)
ALLOW(getdents64, OPENERS | HARDEN_OPEN)
ALLOW(statfs, OPENERS)
ALLOW(fstatfs, OPENERS)
ALLOW(fadvise64, OPENERS)
ALLOW(getcwd, OPENERS)
ALLOW(pwrite64, WRITERS | LINES)
ALLOW(sendfile, HARDEN_LINES)
ALLOW(fsync, WRITERS)
ALLOW(fdatasync, WRITERS)
ALLOW(ftruncate, OPENERS)
ALLOW(fallocate, WRITERS)
ALLOW(fchmod, WRITERS)
ALLOW(renameat2, WRITERS)
ALLOW(unlinkat, WRITERS)
ALLOW(mkdirat, WRITERS)
ALLOW(linkat, WRITERS)
ALLOW(symlinkat, WRITERS)
#ifdef __NR_renameat
ALLOW(renameat, WRITERS)
#endif
#ifdef __NR_open /* x86: the older names too */
ALLOW(rmdir, HARDEN_FETCH)
ALLOW(stat, ALL)
ALLOW(lstat, ALL)
ALLOW(access, OPENERS)
ALLOW(readlink, OPENERS | HARDEN_OPEN)
ALLOW(rename, WRITERS)
ALLOW(unlink, WRITERS)
ALLOW(mkdir, WRITERS)
ALLOW(link, WRITERS)
ALLOW(symlink, WRITERS)
#endif

/* events */
ALLOW(perf_event_open, EVENTS)
ALLOW(pidfd_open, LOOKERS | HARDEN_TRACER)
ALLOW(bpf, EVENTS | HARDEN_READER, IS(0, BPF_MAP_LOOKUP_ELEM))
ALLOW(bpf, EVENTS | HARDEN_READER, IS(0, BPF_MAP_UPDATE_ELEM))
ALLOW(bpf, EVENTS | HARDEN_READER, IS(0, BPF_MAP_DELETE_ELEM))
/* Programs are loaded before a recording runs: what they do a filter can't see. */
ALLOW(bpf, MAIN, IS(0, BPF_MAP_CREATE))
ALLOW(bpf, MAIN, IS(0, BPF_PROG_LOAD))
ALLOW(bpf, MAIN, IS(0, BPF_RAW_TRACEPOINT_OPEN))
ALLOW(bpf, MAIN, IS(0, BPF_MAP_FREEZE))
/* Of those there are: what a kernel address is called (bpf/kernel_names). */
ALLOW(bpf, MAIN | HARDEN_RESOLVER, IS(0, BPF_PROG_TEST_RUN))

/* the command that was started, and what capture stop holds */
ALLOW(wait4, MAIN | HARDEN_CONTROL)
ALLOW(kill, HARDEN_RECORD | HARDEN_CONTROL, IS_CHILD(0))
ALLOW(waitid, HARDEN_TRACER)
ALLOW(ptrace, HARDEN_TRACER, IS(0, PTRACE_CONT))
ALLOW(ptrace, HARDEN_TRACER, IS(0, PTRACE_DETACH), IS(3, 0))
ALLOW(ptrace, HARDEN_TRACER, IS(0, PTRACE_GETEVENTMSG))
ALLOW(ptrace, HARDEN_TRACER, IS(0, PTRACE_GETSIGINFO))
ALLOW(ptrace, HARDEN_TRACER, IS(0, PTRACE_GETREGSET))
ALLOW(ptrace, HARDEN_TRACER, IS(0, PTRACE_LISTEN))
ALLOW(ptrace, HARDEN_TRACER, IS(0, PTRACE_SEIZE), IN(3, ~SEIZE_OPTIONS, 0))

/* questions about files, to processes without rights; what those may ask a server */
ALLOW(sendmsg, ASKERS | HARDEN_FETCH)
ALLOW(recvmsg, ASKERS)
ALLOW(socketpair, ASKERS, IS(0, AF_UNIX))
ALLOW(fcntl, ASKERS, IS(1, F_GET_SEALS))
ALLOW(socket, HARDEN_FETCH)
ALLOW(socketpair, HARDEN_FETCH)
ALLOW(connect, HARDEN_FETCH)
ALLOW(bind, HARDEN_FETCH)
ALLOW(getsockopt, HARDEN_FETCH)
ALLOW(setsockopt, HARDEN_FETCH)
ALLOW(getsockname, HARDEN_FETCH)
ALLOW(getpeername, HARDEN_FETCH)
ALLOW(sendto, HARDEN_FETCH)
ALLOW(sendmmsg, HARDEN_FETCH)
ALLOW(recvfrom, HARDEN_FETCH)
ALLOW(recvmsg, HARDEN_FETCH)
ALLOW(shutdown, HARDEN_FETCH)
ALLOW(ioctl, HARDEN_FETCH, IS(1, FIONBIO))
ALLOW(ioctl, HARDEN_FETCH, IS(1, FIONREAD))
ALLOW(utimensat, HARDEN_FETCH)
ALLOW(fchdir, HARDEN_FETCH)

#ifdef PYSAMPLED_COVERAGE /* a build for tests: what ran is written down at the end */
ALLOW(openat, ALL)
ALLOW(fcntl, ALL, IS(1, F_SETLKW))
#endif

#undef FILES
#undef ASKERS
#undef ALL
#undef LINES
#undef MAIN
#undef WRITERS
#undef LOOKERS
#undef READERS
#undef OPENERS
#undef EVENTS
