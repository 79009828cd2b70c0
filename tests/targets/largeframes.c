/* SPDX-License-Identifier: MIT
 *
 * A program with large frames above Python, and between two of its functions:
 * outer 6 times -> Python -> <module> -> top -> inner 4 times -> leaf, which spins. With a
 * number, that many threads do so. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTER = 6, INNER = 4, BLOCK = 15000 };

static const char script[] = "import large\n"
			     "def leaf():\n"
			     "    x = 0\n"
			     "    for i in range(3000):\n"
			     "        x += i * i\n"
			     "def top():\n"
			     "    large.call(leaf)\n"
			     "print('READY {}', flush=True)\n";
static const char spin[] = "while True:\n"
			   "    top()\n";

__attribute__((noinline)) static PyObject *inner(PyObject *f, int n)
{
	volatile char block[BLOCK];
	PyObject *r;

	memset((char *)block, n, sizeof(block));
	r = n > 1 ? inner(f, n - 1) : PyObject_CallFunction(f, NULL);
	block[0]++;
	return r;
}

static PyObject *call(PyObject *self, PyObject *f)
{
	(void)self;
	return inner(f, INNER);
}

static PyMethodDef methods[] = { { "call", call, METH_O, NULL }, { NULL, NULL, 0, NULL } };
static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, "large", NULL, -1, methods,
				     NULL,		    NULL,    NULL, NULL };

static PyObject *init(void)
{
	return PyModule_Create(&module);
}

static int python(void)
{
	PyGILState_STATE state = PyGILState_Ensure();
	int r = PyRun_SimpleString(spin);

	PyGILState_Release(state);
	return r;
}

__attribute__((noinline)) static int outer(int n)
{
	volatile char block[BLOCK];
	int r;

	memset((char *)block, n, sizeof(block));
	r = n > 1 ? outer(n - 1) : python();
	block[0]++;
	return r;
}

static void *thread(void *arg)
{
	outer(OUTER);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t;

	alarm(300);
	PyImport_AppendInittab("large", init);
	Py_InitializeEx(0);
	for (int n = argc > 1 ? atoi(argv[1]) : 0; n > 0; n--)
		if (pthread_create(&t, NULL, thread, NULL))
			return 1;
	if (PyRun_SimpleString(script) || argc == 1)
		return outer(OUTER);
	PyEval_SaveThread();
	for (;;)
		pause();
}
