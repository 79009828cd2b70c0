/* SPDX-License-Identifier: MIT
 *
 * proc_wait - where threads wait in the kernel.
 */
#include "sys/proc.h"

#include "sys/ask.h"
#include "sys/proc_int.h"

int proc_syscall_parse(const char *text, struct proc_wait *ret)
{
	char *end;
	const char *sp;

	if (strncmp(text, "running", 7) == 0)
		return -EAGAIN;
	ret->syscall = (int)strtol(text, &end, 10);
	sp = end;
	ret->arg = 0;
	for (int i = 0; ret->syscall != -1 && i < 6; i++, sp = end) {
		uint64_t arg = strtoull(sp, &end, 16);

		ret->arg = i ? ret->arg : arg;
	}
	ret->sp = strtoull(sp, &end, 16);
	ret->pc = strtoull(end, NULL, 16);
	return ret->pc ? 0 : -EAGAIN;
}

int proc_syscall(pid_t pid, pid_t tid, struct proc_wait *ret)
{
	_cleanup_free_ char *text = NULL;
	int r = proc_task_file(pid, tid, "syscall", &text);

	*ret = (struct proc_wait){ .syscall = -1 };
	return r == 0 ? proc_syscall_parse(text, ret) : r;
}

void proc_syscall_each(const pid_t *tids, size_t n, struct proc_wait *rets)
{
	_cleanup_free_ struct ask *a = calloc(n + 1, sizeof(*a));
	_cleanup_free_ ssize_t *r = calloc(n + 1, sizeof(*r));

	memset(rets, 0, n * sizeof(*rets));
	for (size_t i = 0; i < n && a && r; i++) {
		a[i].look = proc_look_piece;
		snprintf(a[i].path, sizeof(a[i].path), "/proc/%d/task/%d/syscall", tids[i],
			 tids[i]);
	}
	if (a && r)
		ask_look_each(a, n, r);
	for (size_t i = 0; i < n && a && r; i++) {
		if (r[i] < 0 || proc_syscall_parse(a[i].text, &rets[i]) < 0)
			rets[i].pc = 0;
		free(a[i].text);
	}
}

int proc_wait(pid_t pid, pid_t tid, struct proc_wait *ret)
{
	_cleanup_free_ char *wchan = NULL;
	int r = proc_syscall(pid, tid, ret);

	if (r == 0 && proc_task_file(pid, tid, "wchan", &wchan) == 0 && strcmp(wchan, "0") != 0)
		snprintf(ret->wchan, sizeof(ret->wchan), "%s", wchan);
	return r;
}
