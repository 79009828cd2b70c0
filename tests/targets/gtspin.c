/* SPDX-License-Identifier: MIT
 *
 * Native functions whose address tells which Python line runs: 100 that spin, 100 that fault
 * one page in, 100 that sleep for a moment. Each is called from one line of a target only, so
 * a sampled instruction in spin_37 is its own truth. */
#ifndef NO_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long spin_iterations = 1000;
static volatile int running = -1;

#define SPIN_LOOP(n)                                         \
	do {                                                 \
		for (unsigned long left = (n); left; left--) \
			__asm__ volatile("");                \
	} while (0)

/* running = the number read as hex makes each body differ, so that none is folded into
 * another. */
#define SPIN(n)                                                        \
	__attribute__((noinline, aligned(256), visibility("default"))) \
	PyObject *spin_##n(PyObject *, PyObject *);                    \
	PyObject *spin_##n(PyObject *self, PyObject *unused)           \
	{                                                              \
		(void)self, (void)unused;                              \
		running = 0x##n;                                       \
		SPIN_LOOP(spin_iterations);                            \
		Py_RETURN_NONE;                                        \
	}

#define TOUCH(n)                                                       \
	__attribute__((noinline, aligned(256), visibility("default"))) \
	PyObject *touch_##n(PyObject *, PyObject *);                   \
	PyObject *touch_##n(PyObject *self, PyObject *address)         \
	{                                                              \
		(void)self;                                            \
		volatile char *page = PyLong_AsVoidPtr(address);       \
		if (!page)                                             \
			return NULL;                                   \
		running = 0x##n;                                       \
		*page = 0x##n & 0x7f;                                  \
		Py_RETURN_NONE;                                        \
	}

/* The system call lies in the function itself, where the machine allows it, not in libc. The
 * GIL is kept. */
#if defined(__x86_64__)
#define SLEEP(ts)                                                      \
	do {                                                           \
		long ret;                                              \
		__asm__ volatile("syscall"                             \
				 : "=a"(ret)                           \
				 : "a"(SYS_nanosleep), "D"(ts), "S"(0) \
				 : "rcx", "r11", "memory");            \
	} while (0)
#elif defined(__aarch64__)
#define SLEEP(ts)                                                   \
	do {                                                        \
		register long number __asm__("x8") = SYS_nanosleep; \
		register long first __asm__("x0") = (long)(ts);     \
		register long second __asm__("x1") = 0;             \
		__asm__ volatile("svc #0"                           \
				 : "+r"(first)                      \
				 : "r"(number), "r"(second)         \
				 : "memory");                       \
	} while (0)
#else
#define SLEEP(ts) syscall(SYS_nanosleep, ts, 0)
#endif

#define DOZE(n)                                                        \
	__attribute__((noinline, aligned(256), visibility("default"))) \
	PyObject *doze_##n(PyObject *, PyObject *);                    \
	PyObject *doze_##n(PyObject *self, PyObject *unused)           \
	{                                                              \
		(void)self, (void)unused;                              \
		struct timespec ts = { 0, 500000 };                     \
		running = 0x##n;                                       \
		SLEEP(&ts);                                            \
		Py_RETURN_NONE;                                        \
	}

#define TEN(X, t) \
	X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7) X(t##8) X(t##9)
#define HUNDRED(X) \
	TEN(X, 0)  \
	TEN(X, 1)  \
	TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9)

HUNDRED(SPIN)
HUNDRED(TOUCH)
HUNDRED(DOZE)

static double now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* The fastest of several runs: other jobs on the machine only ever slow one down. */
static double fastest_us(unsigned long iterations)
{
	double best = 1e18;
	for (int run = 0; run < 20; run++) {
		double begin = now_us();
		SPIN_LOOP(iterations);
		double took = now_us() - begin;
		if (took < best)
			best = took;
	}
	return best;
}

/* calibrate(us): makes each spin last about that long; returns the iterations. */
static PyObject *calibrate(PyObject *self, PyObject *us)
{
	(void)self;
	double want = PyFloat_AsDouble(us);
	if (PyErr_Occurred())
		return NULL;
	const unsigned long probe = 200000;
	double iterations = want * (double)probe / fastest_us(probe);
	spin_iterations = iterations < 1 ? 1 : (unsigned long)iterations;
	return PyLong_FromUnsignedLong(spin_iterations);
}

/* Handlers that Python's own would put together: each signal and the value that was sent with
 * it. */
enum { TAKEN_MAX = 1 << 16 };
static volatile sig_atomic_t n_taken;
static struct taken {
	int number, code, value;
} taken[TAKEN_MAX];

static void take(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (n_taken < TAKEN_MAX)
		taken[n_taken++] =
			(struct taken){ number, info->si_code, info->si_value.sival_int };
}

/* take_signal(number) */
static PyObject *take_signal(PyObject *self, PyObject *number)
{
	struct sigaction action = { .sa_sigaction = take,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	(void)self;
	sigfillset(&action.sa_mask);
	if (sigaction((int)PyLong_AsLong(number), &action, NULL) < 0)
		return PyErr_SetFromErrno(PyExc_OSError);
	Py_RETURN_NONE;
}

/* taken_signals(): [(number, si_code, value)], in the order of their handlers. */
static PyObject *taken_signals(PyObject *self, PyObject *unused)
{
	PyObject *list = PyList_New(0);

	(void)self, (void)unused;
	for (int i = 0; list && i < n_taken; i++) {
		PyObject *item =
			Py_BuildValue("iii", taken[i].number, taken[i].code, taken[i].value);

		if (!item || PyList_Append(list, item) < 0)
			Py_CLEAR(list);
		Py_XDECREF(item);
	}
	return list;
}

#define SPIN_ROW(n) { "spin_" #n, spin_##n, METH_NOARGS, NULL },
#define DOZE_ROW(n) { "doze_" #n, doze_##n, METH_NOARGS, NULL },
#define TOUCH_ROW(n) { "touch_" #n, touch_##n, METH_O, NULL },

static PyMethodDef methods[] = {
	HUNDRED(SPIN_ROW) HUNDRED(TOUCH_ROW) HUNDRED(DOZE_ROW){
		"calibrate", calibrate, METH_O, "Make each spin last so many microseconds." },
	{ "take_signal", take_signal, METH_O, "Note a signal whenever it comes." },
	{ "taken_signals", taken_signals, METH_NOARGS, "What has come." },
	{ NULL, NULL, 0, NULL },
};

/* Py_mod_multiple_interpreters, from 3.12 on: with a lock for each interpreter, too; and
 * Py_mod_gil, from 3.13 on: without any lock, too. */
static PyModuleDef_Slot slots[] = { { 0, NULL }, { 0, NULL }, { 0, NULL } };

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "gtspin", NULL, 0, methods, slots, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit_gtspin(void)
{
#if PY_VERSION_HEX >= 0x030b0000 /* before there is no Py_Version */
	if (Py_Version >= 0x030c0000)
		slots[0] = (PyModuleDef_Slot){ 3, (void *)2 };
	if (Py_Version >= 0x030d0000)
		slots[1] = (PyModuleDef_Slot){ 4, (void *)1 };
#endif
	return PyModuleDef_Init(&module);
}
