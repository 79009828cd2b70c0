/* SPDX-License-Identifier: MIT
 *
 * process - what the commands about one process share: -p PID, and its interpreter.
 */
#ifndef CMD_PROCESS_H
#define CMD_PROCESS_H

#include "../lib/pyfind.h"

enum process_native { PROCESS_NO_NATIVE, PROCESS_NATIVE, PROCESS_NATIVE_FULL };

/* What of native frames is shown. */
struct process_shows {
	enum process_native native; /* --native[=full], --no-native */
	bool lines, debuginfod;	    /* --native-lines, --debuginfod */
};

/* -p PID and --help, and where @shows is set its options; @help is printed for --help. The
 * process, or 0 where none is named; below 0: the command is done, with exit code
 * process_done(). */
pid_t process_option(int argc, char **argv, const char *help, struct process_shows *shows);
int process_done(pid_t answer);

/* Find the interpreter of @pid without ever hanging. 0; -EIO when reading hangs; else as
 * pyfind(), which cmd_exit_code() knows. */
int process_find(pid_t pid, struct pyproc *ret, struct err *err);

#endif
