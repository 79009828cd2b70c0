/* SPDX-License-Identifier: MIT
 *
 * fetch_test - memory that is read in a thread of its own, and a read that hangs.
 */
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "unit.h"
#include "base/clock.h"
#include "remote/fetch.h"

enum { BYTES = 200000 };

static unsigned char memory[BYTES];
static _Atomic bool hangs; /* reads do */
static _Atomic unsigned reads;

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
			 const struct iovec *from, unsigned long n_from, unsigned long flags)
{
	reads++;
	while (hangs)
		usleep(100);
	return syscall(SYS_process_vm_readv, pid, to, n_to, from, n_from, flags);
}

static struct fetch *start(size_t n)
{
	raddr at = (raddr)(uintptr_t)memory;
	struct fetch *f = fetch_start(getpid(), now_ns(), at, at + n);

	assert_non_null(f);
	assert_int_equal(getpid(), fetch_pid(f));
	return f;
}

/* What it has read, once that is over; that frees it. */
static size_t end(struct fetch *f)
{
	struct bytes got;
	pid_t pid;
	raddr lo;

	while (!fetch_wait(f, 10))
		;
	assert_true(fetch_done(f, &pid, &lo, &got));
	assert_int_equal(getpid(), pid);
	assert_int_equal((raddr)(uintptr_t)memory, lo);
	assert_memory_equal(memory, got.at, got.n);
	fetch_release(f);
	return got.n;
}

static void all_is_read(void **state)
{
	for (size_t i = 0; i < BYTES; i++)
		memory[i] = (unsigned char)(i * 7 + i / 251);
	assert_int_equal(0, end(start(0)));
	assert_int_equal(1, end(start(1)));
	assert_int_equal(BYTES, end(start(BYTES)));
}

/* The first piece hangs: once it does not the others are not read any more. */
static void one_that_is_left(void **state)
{
	struct fetch *f;

	reads = 0;
	hangs = true;
	f = start(BYTES);
	while (!reads)
		usleep(100);
	assert_false(fetch_wait(f, 0));
	fetch_leave(f);
	assert_false(fetch_wait(f, 1));
	hangs = false;
	assert_int_equal(0, end(f));
	assert_int_equal(1, reads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_read),
		cmocka_unit_test(one_that_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
