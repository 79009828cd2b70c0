/* SPDX-License-Identifier: MIT
 *
 * Makes every remote read of the caller's frame hang: moves the page it lies on away and
 * registers the hole with a userfaultfd that nobody answers. The thread itself then only spins
 * in C, so it goes on using CPU time, until it is told to put the page back. */
#ifndef NO_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
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
	/* PyFrameObject: head, f_back, f_frame; the same in 3.11 to 3.15 */
	FRAME_OFFSET = sizeof(PyObject) + 8,
};

static int fault_fd;
static void *hole, *away;
static volatile int asked_to_fork;

static int register_hole(void *page)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	fault_fd = fd;
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)page, PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &reg))
		return -errno;
	return 0; /* the descriptor stays open, unread, until mend_hole() */
}

/* Until the hole is registered nobody may read it: the kernel would put a page of zeros there,
 * and then no read hangs. */
static int make_hole(void *page)
{
	hole = page;
	away = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (away == MAP_FAILED)
		return -errno;
	if (mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, away) == MAP_FAILED)
		return -errno;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	if (mmap(page, PAGE, PROT_NONE, flags, -1, 0) == MAP_FAILED)
		return -errno;
	int ret = register_hole(page);
	if (ret == 0 && mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		ret = -errno;
	return ret;
}

/* Those who wait for the page get it. */
static void mend_hole(void)
{
	struct uffdio_copy copy = { .dst = (uintptr_t)hole,
				    .src = (uintptr_t)away,
				    .len = PAGE };
	if (ioctl(fault_fd, UFFDIO_COPY, &copy))
		_exit(1);
	close(fault_fd);
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
	while (!input_waits())
		__asm__ volatile("");
}

/* The first letter of a line of stdin; 0 at its end. */
static char command(void)
{
	char c, first = 0;
	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		first = first ? first : c;
	return first;
}

/* Spins until it is told; springs the trap; spins on, through a line "fork", until "mend". */
static void trapped(void *page)
{
	while (!input_waits())
		__asm__ volatile("");
	command();
	int ret = make_hole(page);
	say(ret == 0 ? "TRAPPED\n" : ret == -EPERM ? "TRAPPED EPERM\n" : "TRAPPED failed\n");
	for (;;) {
		trapped_spin();
		char c = command();
		if (c == 'f')
			asked_to_fork = 1;
		else if (c == 'm')
			break;
		else
			_exit(1);
	}
	mend_hole();
}

/* The page of a frame's data. */
static void *page_of(PyObject *frame)
{
	uintptr_t data;
	memcpy(&data, (char *)frame + FRAME_OFFSET, sizeof data);
	return (void *)(data & ~(uintptr_t)(PAGE - 1));
}

/* trap(frame) */
static PyObject *trap(PyObject *self, PyObject *frame)
{
	(void)self;
	trapped(page_of(frame));
	Py_RETURN_NONE;
}

/* The same, while other threads run. */
static PyObject *trap_unlocked(PyObject *self, PyObject *frame)
{
	(void)self;
	void *page = page_of(frame);
	PyThreadState *state = PyEval_SaveThread();
	trapped(page);
	PyEval_RestoreThread(state);
	Py_RETURN_NONE;
}

/* trap_object(object): the same with the object's first page. */
static PyObject *trap_object(PyObject *self, PyObject *object)
{
	(void)self;
	trapped((void *)((uintptr_t)object & ~(uintptr_t)(PAGE - 1)));
	Py_RETURN_NONE;
}

static PyObject *fork_asked(PyObject *self, PyObject *unused)
{
	(void)self, (void)unused;
	return PyBool_FromLong(asked_to_fork);
}

static PyMethodDef methods[] = { { "trap", trap, METH_O, "Returns once told so." },
				 { "trap_unlocked", trap_unlocked, METH_O, NULL },
				 { "trap_object", trap_object, METH_O, NULL },
				 { "fork_asked", fork_asked, METH_NOARGS, NULL },
				 { NULL, NULL, 0, NULL } };

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "frametrap", NULL, -1, methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit_frametrap(void)
{
	return PyModule_Create(&module);
}
