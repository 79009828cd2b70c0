/* SPDX-License-Identifier: MIT
 *
 * takepid PID CMD... - run a command in a process with that number, which must be free.
 */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t pid = argc > 2 ? atoi(argv[1]) : 0;
	struct clone_args a = { .exit_signal = SIGCHLD,
				.set_tid = (uintptr_t)&pid,
				.set_tid_size = 1 };
	long got = syscall(SYS_clone3, &a, sizeof(a));

	if (got == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	printf("%ld\n", got);
	fflush(stdout);
	return got < 0 || wait(NULL) < 0;
}
