/* SPDX-License-Identifier: MIT
 *
 * process - what the commands about one process share: -p PID, and its interpreter.
 */
#ifndef CMD_PROCESS_H
#define CMD_PROCESS_H

#include "targets/lookup.h"
#include "targets/scope.h"

enum {
	PROCESS_MAX = 1 << 30, /* no number of a process, at any kernel.pid_max */
	PROCESS_PIDS = 256,
};

enum process_native { PROCESS_NO_NATIVE, PROCESS_NATIVE, PROCESS_NATIVE_FULL };

struct file_helper;
struct srcline;

/* Which processes, and what of native frames is shown. */
struct process_shows {
	pid_t pid[PROCESS_PIDS];
	size_t n_pids;
	struct scope scope;		 /* instead of those: -a, --match, -u, -G */
	bool json;			 /* --json */
	enum process_native native;	 /* --native[=full], --no-native */
	bool with_native, no_native;	 /* which of these two was given */
	bool lines, debuginfod;		 /* --native-lines, --debuginfod */
	bool async;			 /* --async */
	struct srcline *source;		 /* who is asked for lines */
	struct file_helper *file_helper; /* who reads mapped files */
	const struct kernel_names *kernel_names; /* who names kernel frames; or NULL */
};

/* -p PID and --help, and where @shows is set its options and several processes, also without
 * -p; @help is printed for --help. The (first) process, or 0 where none is named; below 0: the
 * command is done, with exit code process_done(). */
pid_t process_option(int argc, char **argv, const char *help, struct process_shows *shows);
int process_done(pid_t answer);

/* The part of a scope that option @opt names by @arg: 'a', 'm' (--match), 'u' or 'G'. 0, or
 * the exit code after a sentence. */
int process_scope(struct scope *s, int opt, const char *arg);

/* lookup() of @pid and its children, whose files @files reads: 0, LOOKUP_WRAPPER, or what
 * cmd_exit_code() knows; -EIO when reading hangs. ret->child is the caller's to free in any
 * case. */
int process_find(pid_t pid, struct file_helper *files, struct lookup *ret, struct err *err);

/* Name the file that @files (or NULL) found not to answer. */
void process_say_slow(struct file_helper *files);

#endif
