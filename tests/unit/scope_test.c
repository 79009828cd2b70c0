/* SPDX-License-Identifier: MIT
 *
 * scope_test - which processes fit -a, --match, -u and -G, what is wrong usage of them, and who is left out.
 */
#include "sys/rights.h"
#include "targets/census.h"
#include "targets/scope.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"
#include "nobody_opens.h"

static const char text[] = "12:memory:/user.slice/a\n"
			   "3:cpu,cpuacct:/jobs/one\n"
			   "1:name=systemd:/init\n"
			   "0::/system.slice/web.service\n";

static void a_cgroup_and_what_is_below_fit(void **state)
{
	(void)state;
	assert_true(scope_in_cgroup(text, "/jobs/one"));
	assert_true(scope_in_cgroup(text, "/jobs"));
	assert_true(scope_in_cgroup(text, "/jobs/"));
	assert_true(scope_in_cgroup(text, "/"));
	assert_true(scope_in_cgroup(text, "/system.slice"));
	assert_false(scope_in_cgroup(text, "/job"));
	assert_false(scope_in_cgroup(text, "/jobs/one/below"));
	assert_false(scope_in_cgroup(text, "/one"));
	assert_false(scope_in_cgroup("", "/"));
	assert_false(scope_in_cgroup("nothing\n::\n0:\n", "/jobs"));
}

static void the_folder_of_a_hierarchy_is_no_part_of_the_path(void **state)
{
	(void)state;
	assert_true(scope_in_cgroup(text, "/memory/user.slice"));
	assert_true(scope_in_cgroup(text, "/cpu,cpuacct/jobs"));
	assert_true(scope_in_cgroup(text, "/systemd/init"));
	assert_true(scope_in_cgroup(text, "/unified/system.slice/web.service"));
	assert_true(scope_in_cgroup(text, "/memory"));
	assert_false(scope_in_cgroup(text, "/memory/jobs"));
	assert_false(scope_in_cgroup(text, "/mem/user.slice"));
	assert_false(scope_in_cgroup(text, "/unified/jobs"));
}

static void what_cant_be_understood_is_refused(void **state)
{
	struct scope s = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(scope_match(&s, "(", &err), -EINVAL);
	assert_false(scope_is_set(&s));
	assert_int_equal(scope_match(&s, "a|b", &err), 0);
	assert_int_equal(scope_match(&s, "[", &err), -EINVAL);
	assert_null(s.match);
	assert_int_equal(scope_user(&s, "no such user", &err), -ENOENT);
	assert_int_equal(scope_user(&s, "12x", &err), -ENOENT);
	assert_int_equal(scope_user(&s, "4294967295", &err), -ENOENT);
	assert_int_equal(scope_user(&s, "4294967294", &err), 0);
	assert_int_equal(s.uid, 4294967294u);
	assert_int_equal(scope_cgroup(&s, "relative", &err), -EINVAL);
	assert_true(scope_is_set(&s));
	assert_false(scope_is_open(&s));
}

static void we_and_ours_never_fit(void **state)
{
	struct scope s = { .all = true };
	int pipes[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		char byte;

		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) < 0);
	}
	assert_false(scope_fits(&s, getpid()));
	assert_false(scope_fits(&s, child));
	if (getppid() > 0) /* who started us is in our PID namespace */
		assert_true(scope_fits(&s, getppid()));
	s.uid = geteuid() + 1;
	s.user = "another";
	assert_false(scope_fits(&s, getppid()));
	close(pipes[0]);
	close(pipes[1]);
}

static void a_scope_is_told_in_words(void **state)
{
	struct scope s = { .user = "joe", .cgroup = "/jobs" };
	struct err err;
	char buf[300];

	(void)state;
	assert_int_equal(scope_match(&s, "celery.*worker", &err), 0);
	assert_string_equal(scope_text(&s, buf, sizeof(buf)),
			    "every Python process whose command line matches 'celery.*worker' "
			    "of user joe in cgroup /jobs");
	regfree(&s.regex);
}

static void keep(void *arg, const char *sentence)
{
	snprintf(arg, 300, "%s", sentence);
}

/* Root of a container is not told to become root. */
static void who_may_not_be_looked_at_is_told_by_who_asks(void **state)
{
	const struct census c = { .denied = 2 };
	char said[300] = "";
	const struct note note = { keep, said };

	(void)state;
	census_tell(&c, &note);
	assert_non_null(strstr(said, "left out: 2 processes whose memory may not be read: "));
	assert_non_null(strstr(said, "CAP_SYS_PTRACE"));
	assert_int_equal(strstr(said, "run as root") != NULL, geteuid() != 0);
	assert_int_equal(strstr(said, "root has CAP_SYS_PTRACE and is refused") != NULL,
			 geteuid() == 0 && rights_have(CAP_SYS_PTRACE));
}

/* Our own want of processes leaves one out, and that is told. */
static void who_lacks_openers_is_left_out(void **state)
{
	struct scope s = { 0 };
	struct file_helper *h = file_helper_start(NULL);
	int hang = nobody_opens(h), ready[2];
	pid_t parent;
	char said[300] = "", byte;
	const struct note note = { keep, said };
	struct census c;
	struct err err;

	(void)state;
	assert_int_equal(scope_match(&s, "scope_test", &err), 0);
	assert_int_equal(pipe(ready), 0);
	parent = fork();
	if (parent == 0) { /* our own children never fit, but theirs */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			byte = write(ready[1], "", 1) == 1;
		}
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(census_take(&c, &s, h, NULL), 0);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	assert_true(c.lacking > 0);
	assert_true(census_left_out(&c) >= c.lacking);
	census_tell(&c, &note);
	assert_non_null(strstr(said, " that could not be looked at: process "));
	assert_non_null(strstr(said, "(ulimit -u)"));
	census_deinit(&c);
	regfree(&s.regex);
	close(ready[0]);
	close(ready[1]);
	close(hang);
	file_helper_end(h);
}

/* That nobody runs Python is not said of who was not looked at. */
static void one_without_a_row_tells_who_may_not_be_looked_at(void **state)
{
	const struct census all = { .looked = 3, .denied = 3 }, some = { .looked = 3, .denied = 1 },
			    unknown = { .looked = 3, .denied = 1, .unknown = 1 },
			    lacking = { .looked = 3, .denied = 1, .lacking = 1 };
	char buf[400];

	(void)state;
	census_denied(&all, buf, sizeof(buf));
	assert_ptr_equal(buf, strstr(buf, "none of the 3 processes that fit may be looked at: "));
	assert_int_equal(strstr(buf, "run as root") != NULL, geteuid() != 0);
	census_denied(&some, buf, sizeof(buf));
	assert_ptr_equal(buf, strstr(buf, "of 3 processes that fit 1 may not be looked at, and "
					  "none of the others runs Python: "));
	assert_int_equal(strstr(buf, "run as root") != NULL, geteuid() != 0);
	census_denied(&unknown, buf, sizeof(buf));
	assert_non_null(strstr(buf, "none of the others runs Python that can be read: "));
	census_denied(&lacking, buf, sizeof(buf));
	assert_non_null(strstr(buf, "none of the others runs Python that can be read: "));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cgroup_and_what_is_below_fit),
		cmocka_unit_test(the_folder_of_a_hierarchy_is_no_part_of_the_path),
		cmocka_unit_test(what_cant_be_understood_is_refused),
		cmocka_unit_test(we_and_ours_never_fit),
		cmocka_unit_test(a_scope_is_told_in_words),
		cmocka_unit_test(who_may_not_be_looked_at_is_told_by_who_asks),
		cmocka_unit_test(one_without_a_row_tells_who_may_not_be_looked_at),
		cmocka_unit_test(who_lacks_openers_is_left_out),
	};

	if (argc > 1 && !strcmp(argv[1], FILE_HELPER_COMMAND))
		return file_serve_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
