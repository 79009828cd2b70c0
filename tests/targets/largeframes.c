/* SPDX-License-Identifier: MIT
 *
 * A program with large frames above Python, and between two of its functions:
 * outer 6 times -> Python -> <module> -> top -> inner 4 times -> leaf, which spins. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
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
			     "print('READY {}', flush=True)\n"
			     "while True:\n"
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

__attribute__((noinline)) static int outer(int n)
{
	volatile char block[BLOCK];
	int r;

	memset((char *)block, n, sizeof(block));
	if (n > 1) {
		r = outer(n - 1);
	} else {
		Py_InitializeEx(0);
		r = PyRun_SimpleString(script);
	}
	block[0]++;
	return r;
}

int main(void)
{
	alarm(300);
	PyImport_AppendInittab("large", init);
	return outer(OUTER);
}
