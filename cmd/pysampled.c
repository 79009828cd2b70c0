/* SPDX-License-Identifier: MIT
 *
 * pysampled - main: pick the command.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/nearest.h"
#include "capture/capture.h"
#include "names/demangle.h"
#include "elf/file_helper.h"
#include "elf/inflate.h"
#include "unwind/others.h"
#include "offsets/pylayout.h"
#include "lines/srcline.h"
#include "base/sparse.h"
#include "elf/xz.h"
#include "sys/proc.h"
#include "../output/sink.h"
#include "cmd.h"
#include "process.h"
#include "program.h"

enum { STACK_KB = 256 }; /* that recording takes at most */

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "record", cmd_record, "sample a process into a file (the default command)" },
	{ "dump", cmd_dump, "print the stack of every thread now" },
	{ "report", cmd_report, "tell in text where a recording's samples were" },
	{ "diff", cmd_diff, "tell what grew and what shrank from one recording to another" },
	{ "convert", cmd_convert, "write a recording in another format" },
	{ "unpack", cmd_unpack,
	  "let perf name the functions of a recording from another machine" },
	{ "events", cmd_events, "list what can be sampled here, and why not where it can't" },
	{ "doctor", cmd_doctor, "what this kernel, these rights and this target allow" },
};

static int print_help(FILE *f)
{
	fprintf(f, "Usage: pysampled [record] -p PID [options]\n"
		   "       pysampled [record] [options] -- CMD [ARG...]\n"
		   "       pysampled COMMAND [options]\n\n"
		   "Sample running Python processes by any perf event, from outside.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].help);
	fprintf(f,
		"\n  -h, --help\n  -V, --version\n"
		"\n'pysampled COMMAND --help' tells a command's options; man pysampled tells "
		"all.\n");
	return EXIT_DONE;
}

int cmd_version(void)
{
	const struct pylayout *const *l;
	size_t n;

	printf("pysampled %s\nCPython:", PYSAMPLED_VERSION);
	l = pylayout_all(&n);
	for (size_t i = 0; i < n; i++)
		printf(" %d.%d", l[i]->version >> 8, l[i]->version & 0xff);
	printf("\nformats:");
	for (size_t i = 0; sink_formats[i]; i++)
		printf(" %s", sink_formats[i]->name);
	printf("\ncaptures:");
	for (size_t i = 0; captures[i]; i++)
		printf(" %s", captures[i]->name);
	printf("\nbuilt with: zstd seccomp%s%s%s%s", demangle_built ? " libiberty" : "",
	       xz_built ? " lzma" : "", inflate_zlib_built ? " zlib" : "",
	       srcline_built ? " libdw" : "");
	for (size_t i = 0; unwind_others[i]; i++)
		printf(" %s", unwind_others[i]->name);
	printf("\n");
	return EXIT_DONE;
}

static const struct cmd_elsewhere commands_elsewhere[] = {
	{ "top", "'pysampled -p PID -d 5', which ends with the hottest functions" },
	{ "stat", "'pysampled -e A,B -p PID', and then 'pysampled report --by event'" },
	{ "attach", "'pysampled -p PID'" },
	{ "run", "'pysampled -- CMD'" },
	{ "bt", "'pysampled dump PID'" },
	{ "py-bt", "'pysampled dump PID'" },
	{ "info", "'pysampled dump PID'" },
	{ "thread", "'pysampled dump PID'" },
	{ "list", "'pysampled events'" },
	{ "script", "'pysampled convert FILE -o OUT.folded'" },
	{ "annotate", "'pysampled report FILE --annotate FUNC'" },
	{ "flamegraph", "'pysampled convert FILE -o OUT.html'" },
	{ "watch", "'watch pysampled dump PID'" },
	{ "version", "'pysampled --version'" },
	{ 0 },
};

/* What was probably meant by a first word that is no command. */
static int no_command(int argc, char **argv)
{
	struct nearest near = { .want = argv[1] };
	const char *by = program_python(argv[1]);
	char text[512];

	if (cmd_elsewhere("command", argv[1], commands_elsewhere))
		return EXIT_USAGE;
	if (cmd_number(argv[1], PROCESS_MAX) > 0)
		return cmd_fail(EXIT_USAGE,
				"there is no command '%s'; to sample that process: "
				"pysampled -p %s",
				argv[1], argv[1]);
	if (*by || program_find(argv[1], NULL) == 0)
		return cmd_fail(EXIT_USAGE,
				"there is no command '%s'; to run that program and sample it: "
				"pysampled -- %s%s%s",
				argv[1], by, argv[1], argc > 2 ? " ..." : "");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		nearest_offer(&near, commands[i].name);
	return cmd_fail(EXIT_USAGE, "there is no command '%s'%s; see --help", argv[1],
			nearest_text(&near, text, sizeof(text)));
}

/* help [COMMAND] */
static int help_of(int argc, char **argv)
{
	char *words[] = { argv[argc > 1], "--help", NULL };

	if (argc < 2)
		return print_help(stdout);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(2, words);
	return no_command(argc, argv);
}

static int run(int argc, char **argv)
{
	if (argc < 2)
		return print_help(stderr), EXIT_USAGE;
	if (!strcmp(argv[1], SRCLINE_COMMAND))
		return srcline_main(argc > 2);
	if (!strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return print_help(stdout);
	if (!strcmp(argv[1], "help"))
		return help_of(argc - 1, argv + 1);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return cmd_version();
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	if (argv[1][0] == '-')
		return cmd_record(argc, argv);
	return no_command(argc, argv);
}

/* What was closed when we began stays so for a command that we start, but nothing that we open
 * gets its number: messages would go there. Writes fail as before. */
static void hold_closed(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Thread @tid of ours waits for a target's memory. */
static bool waits_for_memory(pid_t tid)
{
	struct proc_wait wait;

	return proc_syscall(getpid(), tid, &wait) == 0 && wait.syscall == SYS_process_vm_readv;
}

static bool read_hangs(void)
{
	const struct timespec moment = { .tv_nsec = 20 * 1000 * 1000 };
	_cleanup_free_ pid_t *tids = NULL;
	bool hangs = false;
	size_t n = 0;

	if (proc_tasks(getpid(), &tids, &n) < 0)
		return false;
	for (size_t i = 0; i < n && !hangs; i++)
		hangs = waits_for_memory(tids[i]) &&
			clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL) == 0 &&
			waits_for_memory(tids[i]);
	return hangs;
}

/* A read of memory that a program serves (FUSE) can't even be killed: until it returns, this
 * process exists and keeps open what it was given. Who reads our pipes need not wait. */
static int end(int code)
{
	if (read_hangs()) {
		cmd_say("a read of a target's memory still hangs; all else is done, but until "
			"its owner answers or ends this process may stay");
		for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
			close(fd);
	}
	return code;
}

/* A stack that can't grow as far as ours does would end us by a signal. */
static int check_stack(int argc, char **argv)
{
	int code = EXIT_FAILED;
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_KB << 10)
		return EXIT_DONE;
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--"))
			code = EXIT_OWN_FAILURE;
	return cmd_fail(code,
			"the stack may take %lu KB only: raise the limit (ulimit -s) to %d or "
			"more",
			(unsigned long)limit.rlim_cur >> 10, STACK_KB);
}

int main(int argc, char **argv)
{
	int code;

	hold_closed();
	/* A closed pipe or a full quota is an error of the write that meets it, not our
	 * end. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	opterr = 0;
	sparse_init();
	code = check_stack(argc, argv);
	return end(cmd_flush(code ? code : run(argc, argv)));
}
