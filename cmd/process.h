/* SPDX-License-Identifier: MIT
 *
 * process - what the commands about one process share: -p PID, and its interpreter.
 */
#ifndef CMD_PROCESS_H
#define CMD_PROCESS_H

#include "../lib/pyfind.h"

enum process_native { PROCESS_NO_NATIVE, PROCESS_NATIVE, PROCESS_NATIVE_FULL };

/* -p PID and --help, and where @native is set --native[=full] and --no-native; @help is
 * printed for --help. The process, or 0 where none is named; below 0: the command is done,
 * with exit code process_done(). */
pid_t process_option(int argc, char **argv, const char *help, enum process_native *native);
int process_done(pid_t answer);

/* Find the interpreter of @pid without ever hanging. 0; -EIO when reading hangs; else as
 * pyfind(), which cmd_exit_code() knows. */
int process_find(pid_t pid, struct pyproc *ret, struct err *err);

#endif
