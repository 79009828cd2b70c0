/* SPDX-License-Identifier: MIT
 *
 * Makes every remote read of the caller's frame hang: moves the page it lies on away and
 * registers the hole with a userfaultfd that nobody answers. The thread itself then only spins
 * in C, so it goes on using CPU time. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	FRAME_OFFSET = 24
}; /* PyFrameObject: head, f_back, f_frame; the same in 3.11 to 3.15 */

static int register_hole(void *page)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)page, PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		return -errno;
	return 0; /* the descriptor stays open, unread */
}

static int make_hole(void *page)
{
	void *away = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (away == MAP_FAILED)
		return -errno;
	if (mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, away) == MAP_FAILED)
		return -errno;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	if (mmap(page, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
		return -errno;
	return register_hole(page);
}

static int input_waits(void)
{
	struct pollfd fd = { .fd = STDIN_FILENO, .events = POLLIN };
	return poll(&fd, 1, 0) > 0;
}

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		_exit(1);
}

__attribute__((noinline, visibility("default"))) void trapped_spin(void);
void trapped_spin(void)
{
	for (;;)
		__asm__ volatile("");
}

/* trap(frame): spins until input waits on stdin, springs the trap, says TRAPPED, and never
 * returns. */
static PyObject *trap(PyObject *self, PyObject *frame)
{
	(void)self;
	uintptr_t data;
	memcpy(&data, (char *)frame + FRAME_OFFSET, sizeof data);
	while (!input_waits())
		__asm__ volatile("");
	int ret = make_hole((void *)(data & ~(uintptr_t)(PAGE - 1)));
	say(ret == 0 ? "TRAPPED\n" : ret == -EPERM ? "TRAPPED EPERM\n" : "TRAPPED failed\n");
	trapped_spin();
	return NULL;
}

static PyMethodDef methods[] = { { "trap", trap, METH_O, "Never returns." },
				 { NULL, NULL, 0, NULL } };

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "frametrap", NULL, -1, methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit_frametrap(void)
{
	return PyModule_Create(&module);
}
