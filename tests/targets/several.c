/* SPDX-License-Identifier: MIT
 *
 * A program with two interpreters of their own. several HOW LIBPYTHON HOME LIBPYTHON HOME
 * HOW: threads (each works in one), again (the same, but each file in a namespace of its own: dlmopen()),
 * late (the second one begins once a line comes on stdin), nested (one thread: the first calls the second, which calls the
 * first). In thread N the stack is <module>, call_N, leaf_N; nested it is <module>, outer_1, <module>, middle_2, <module>,
 * inner_1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static const char threads[] = "def leaf_%d():\n"
			      "    x = 0\n"
			      "    for i in range(3000):\n"
			      "        x += i * i\n"
			      "def call_%d():\n"
			      "    while True:\n"
			      "        leaf_%d()\n"
			      "call_%d()\n";
static const char inner[] = "def inner_1():\n"
			    "    x = 0\n"
			    "    for i in range(3000):\n"
			    "        x += i * i\n"
			    "inner_1()\n";
static const char middle[] = "def middle_2():\n"
			     "    cross()\n"
			     "middle_2()\n";
static const char outer[] = "def outer_1():\n"
			    "    while True:\n"
			    "        cross()\n"
			    "outer_1()\n";

struct python {
	int n, again, sleeps;
	const char *path, *home;
	int (*run)(const char *);
	void *(*number)(long);
	void *(*main)(const char *);
	void *(*function)(void *method, void *self, void *module);
	int (*set)(void *of, const char *name, void *value);
};

static struct python python[2];

static void *find(void *lib, const char *name)
{
	void *at = dlsym(lib, name);

	if (!at)
		exit(1);
	return at;
}

static void begin(struct python *p)
{
	void *lib = p->again ? dlmopen(LM_ID_NEWLM, p->path, RTLD_NOW | RTLD_LOCAL) :
			       dlopen(p->path, RTLD_NOW | RTLD_LOCAL);
	static wchar_t home[2][4096];
	void (*init)(int), (*set_home)(const wchar_t *);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	mbstowcs(home[p->n - 1], p->home, 4095);
	*(void **)&set_home = find(lib, "Py_SetPythonHome");
	*(void **)&init = find(lib, "Py_InitializeEx");
	*(void **)&p->run = find(lib, "PyRun_SimpleString");
	*(void **)&p->number = find(lib, "PyLong_FromLong");
	*(void **)&p->main = find(lib, "PyImport_AddModule");
	*(void **)&p->function = find(lib, "PyCFunction_NewEx");
	*(void **)&p->set = find(lib, "PyObject_SetAttrString");
	*(int *)find(lib, "Py_NoSiteFlag") = 1;
	set_home(home[p->n - 1]);
	init(0);
}

static void *work(void *arg)
{
	struct python *p = arg;
	char script[1000];

	begin(p);
	snprintf(script, sizeof(script), threads, p->n, p->n, p->n, p->n);
	p->run(script);
	exit(1);
}

/* A function of each one, by which it calls the other. */
static void *cross_1(void *self, void *args)
{
	python[1].run(middle);
	return python[0].number(0);
}

static void *cross_2(void *self, void *args)
{
	python[0].run(inner);
	return python[1].number(0);
}

static void nested(void)
{
	static struct method {
		const char *name;
		void *(*call)(void *, void *);
		int flags;
		const char *doc;
	} method[2] = { { "cross", cross_1, 4 /* METH_NOARGS */, NULL }, { "cross", cross_2, 4, NULL } };

	for (int i = 0; i < 2; i++) {
		struct python *p = &python[i];

		begin(p);
		p->set(p->main("__main__"), "cross", p->function(&method[i], NULL, NULL));
	}
	python[0].run(outer);
}

int main(int argc, char **argv)
{
	pthread_t thread[2];

	if (argc != 6)
		return 1;
	alarm(300);
	for (int i = 0; i < 2; i++)
		python[i] = (struct python){ .n = i + 1,
					     .again = !strcmp(argv[1], "again"),
					     .path = argv[2 + 2 * i],
					     .home = argv[3 + 2 * i] };
	puts("READY {}");
	fflush(stdout);
	if (!strcmp(argv[1], "nested")) {
		nested();
		return 1;
	}
	for (int i = 0; i < 2; i++) {
		if (i && !strcmp(argv[1], "late") && getchar() == EOF)
			return 1;
		if (pthread_create(&thread[i], NULL, work, &python[i]))
			return 1;
	}
	pthread_join(thread[0], NULL);
	return 1;
}
