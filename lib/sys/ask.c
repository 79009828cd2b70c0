/* SPDX-License-Identifier: MIT
 *
 * ask - the threads that look for others, and how one that hangs is left behind.
 */
#include "sys/ask.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "sys/harden.h"

enum {
	MOST_LEFT = 64,	   /* then nobody is looked at any more */
	STILL_MS = 10,	   /* between two looks at who looks */
	UNKNOWN_MS = 1000, /* that it may have where nobody can tell whether it sleeps */
	PATIENCE_MS = 300, /* that it may sleep in one look */
	NEXT_MS = 50,	   /* that it may sleep in one look while another one hangs */
	SPIN_NS = 30000,   /* a look takes 10 us, and most follow another one */
};

enum state { LOOKS, DONE, LEFT };

/* A thread that looks for another one: at each of @n of @asks, until it is LEFT. */
struct asker {
	sem_t go, done;
	_Atomic int refs; /* its own and the owner's */
	_Atomic enum state state;
	_Atomic pid_t tid;
	pthread_t thread; /* joined at the end, unless LEFT */
	pid_t about;	  /* LEFT: at which it hangs */
	struct ask *asks; /* NULL: end */
	ssize_t *rets;
	size_t n, taken;   /* taken: of those what was found is the owner's, once LEFT */
	_Atomic size_t at; /* those before it are done */
};

/* What a thread that does not hang knows. */
static _Thread_local struct {
	unsigned depth; /* of ask_begin() */
	pid_t own;
	const struct note *note;
	struct asker *now;
	struct asker *left[MOST_LEFT];
	bool full_told; /* that no more may hang */
} mine;

static void unref(struct asker *k)
{
	if (atomic_fetch_sub(&k->refs, 1) != 1)
		return;
	sem_destroy(&k->go);
	sem_destroy(&k->done);
	free(k->asks);
	free(k->rets);
	free(k);
}

static void await(sem_t *s)
{
	while (sem_wait(s) < 0 && errno == EINTR)
		;
}

/* Without a system call, if it is there soon. */
static bool spin(sem_t *s)
{
	uint64_t end = now_ns() + SPIN_NS;

	while (sem_trywait(s) < 0) {
		if (now_ns() > end)
			return false;
	}
	return true;
}

static void await_soon(sem_t *s)
{
	if (!spin(s))
		await(s);
}

/* False: it was left behind; what nobody took is freed. */
static bool look_at_all(struct asker *k)
{
	size_t i;

	for (i = 0; i < k->n && atomic_load(&k->state) == LOOKS; i++) {
		k->rets[i] = k->asks[i].look(&k->asks[i]);
		atomic_store(&k->at, i + 1);
	}
	if (atomic_exchange(&k->state, DONE) == LOOKS)
		return true;
	for (size_t j = k->taken; j < i; j++)
		free(k->asks[j].text);
	return false;
}

static void *asker_main(void *arg)
{
	struct asker *k = arg;

	harden_thread(HARDEN_PROBE, 0);
	atomic_store(&k->tid, gettid());
	for (await_soon(&k->go); k->asks; await_soon(&k->go)) {
		if (!look_at_all(k))
			break;
		sem_post(&k->done);
	}
	unref(k);
	return NULL;
}

/* NULL: no memory or thread. */
static struct asker *asker_create(void)
{
	struct asker *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	sem_init(&k->go, 0, 0);
	sem_init(&k->done, 0, 0);
	atomic_init(&k->refs, 2);
	if (pthread_create(&k->thread, NULL, asker_main, k) == 0)
		return k;
	atomic_store(&k->refs, 1);
	unref(k);
	return NULL;
}

/* Those that came back are forgotten. How many still hang, and whether one does at @pid. */
static size_t count_left(pid_t pid, bool *hangs)
{
	size_t n = 0;

	*hangs = false;
	for (size_t i = 0; i < MOST_LEFT; i++) {
		if (!mine.left[i])
			continue;
		if (atomic_load(&mine.left[i]->state) == DONE) {
			unref(mine.left[i]);
			mine.left[i] = NULL;
			continue;
		}
		*hangs = *hangs || mine.left[i]->about == pid;
		n++;
	}
	return n;
}

/* It is looked at who looks: a busy machine may not have let it run at all. 0: no; negative: there
 * is no descriptor to tell by. */
static int sleeps(const struct asker *k)
{
	pid_t tid = atomic_load(&k->tid);
	char path[64], text[128];
	_cleanup_close_ int fd = -1;
	const char *end;
	ssize_t n;

	if (!tid)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	text[MAX(n, (ssize_t)0)] = '\0';
	end = strrchr(text, ')'); /* of its name, which is ours */
	return end && (strncmp(end, ") D", 3) == 0 || strncmp(end, ") S", 3) == 0);
}

/* True: it is done. False: it hangs, after k->taken looks. */
static bool await_looks(struct asker *k, unsigned patience_ms)
{
	unsigned slept_ms = 0, unknown_ms = 0;
	size_t at = 0;

	if (spin(&k->done))
		return true;
	while (slept_ms < patience_ms && unknown_ms < UNKNOWN_MS) {
		int asleep;

		/* so what it did is seen: not each checker of races knows this wait */
		if (clock_await(&k->done, now_ns() + STILL_MS * 1000000ull))
			return atomic_load(&k->state) == DONE;
		asleep = atomic_load(&k->at) == at ? sleeps(k) : 0;
		slept_ms = asleep > 0 ? slept_ms + STILL_MS : 0;
		unknown_ms = asleep < 0 ? unknown_ms + STILL_MS : 0;
		at = atomic_load(&k->at);
	}
	k->taken = at;
	if (atomic_exchange(&k->state, LEFT) == LOOKS)
		return false;
	await(&k->done);
	return true;
}

static void leave_behind(struct asker *k)
{
	pthread_detach(k->thread);
	for (size_t i = 0; i < MOST_LEFT; i++)
		if (!mine.left[i]) {
			mine.left[i] = k;
			break;
		}
	mine.now = NULL;
	if (mine.note)
		note_say(mine.note,
			 "process %d can't be looked at: it changes its memory or program, and "
			 "that hangs; until it ends what is new of it is not known",
			 k->about);
}

/* The kernel asks for no lock of a process's memory, or of its execve(), to fill these. */
static bool may_hang(const char *path)
{
	static const char *const never[] = { "status", "comm", "children", "cgroup", "schedstat" };
	const char *name = strrchr(path, '/') + 1;

	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (strcmp(name, never[i]) == 0)
			return false;
	return true;
}

/* The process that @path, "/proc/PID/...", is of, if a look may hang; 0: it is of none but ours. */
static pid_t process_of(const char *path)
{
	pid_t pid;

	if (!may_hang(path) || strncmp(path, "/proc/", 6) != 0 || !isdigit((unsigned char)path[6]))
		return 0;
	pid = (pid_t)strtol(path + 6, NULL, 10);
	return pid == mine.own ? 0 : pid;
}

static void tell_full(void)
{
	if (mine.note && !mine.full_told)
		note_say(mine.note,
			 "%d looks at processes hang: until one ends nothing new of any other "
			 "process is known either",
			 MOST_LEFT);
	mine.full_told = true;
}

/* 0: a call will do; -ETIMEDOUT: it hangs, or too many do. */
static pid_t who_hangs_not(const struct ask *a, size_t *n_left)
{
	pid_t pid = mine.depth ? process_of(a->path) : 0;
	bool hangs;

	if (!pid)
		return 0;
	*n_left = count_left(pid, &hangs);
	if (hangs)
		return -ETIMEDOUT;
	if (*n_left < MOST_LEFT)
		return pid;
	tell_full();
	return -ETIMEDOUT;
}

/* NULL: no memory or thread. */
static struct asker *asker_for(const struct ask *a, size_t n)
{
	struct asker *k = mine.now = mine.now ? mine.now : asker_create();

	if (!k)
		return NULL;
	if (n > k->n) {
		free(k->asks);
		free(k->rets);
		k->asks = calloc(n, sizeof(*k->asks));
		k->rets = calloc(n, sizeof(*k->rets));
	}
	k->n = n;
	if (!k->asks || !k->rets) {
		k->n = 0;
		return NULL;
	}
	memcpy(k->asks, a, n * sizeof(*a));
	atomic_store(&k->at, 0);
	atomic_store(&k->state, LOOKS);
	return k;
}

/* The first of @n, and those behind it up to one that hangs, that one too. How many. */
static size_t look_some(struct ask *a, size_t n, size_t n_left, ssize_t *ret)
{
	struct asker *k = asker_for(a, n);
	bool done;

	if (!k) {
		ret[0] = a->look(a);
		return 1;
	}
	sem_post(&k->go);
	done = await_looks(k, n_left ? NEXT_MS : PATIENCE_MS);
	if (done)
		k->taken = n;
	memcpy(a, k->asks, k->taken * sizeof(*a));
	memcpy(ret, k->rets, k->taken * sizeof(*ret));
	if (done)
		return n;
	n = k->taken;
	k->about = process_of(a[n].path);
	leave_behind(k);
	ret[n] = -ETIMEDOUT;
	return n + 1;
}

void ask_look_each(struct ask *a, size_t n, ssize_t *ret)
{
	for (size_t i = 0; i < n;) {
		size_t n_left = 0, some = 1;
		pid_t pid = who_hangs_not(&a[i], &n_left);

		if (pid > 0) {
			while (i + some < n && who_hangs_not(&a[i + some], &n_left) > 0)
				some++;
			i += look_some(&a[i], some, n_left, &ret[i]);
		} else {
			ret[i] = pid ? pid : a[i].look(&a[i]);
			i++;
		}
	}
}

ssize_t ask_look(struct ask *a)
{
	ssize_t ret;

	ask_look_each(a, 1, &ret);
	return ret;
}

void ask_begin(const struct note *note)
{
	if (mine.depth++)
		return;
	mine.note = note;
	mine.own = getpid();
}

void ask_end(void)
{
	if (--mine.depth)
		return;
	if (mine.now) {
		free(mine.now->asks);
		mine.now->asks = NULL;
		sem_post(&mine.now->go);
		pthread_join(mine.now->thread, NULL);
		unref(mine.now);
	}
	for (size_t i = 0; i < MOST_LEFT; i++)
		if (mine.left[i])
			unref(mine.left[i]);
	memset(&mine, 0, sizeof(mine));
}
