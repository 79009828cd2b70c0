/* SPDX-License-Identifier: MIT
 *
 * pool - hands out a socket to one thread at a time, and has processes started.
 */
#include "elf/pool.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "sys/fdpass.h"
#include "sys/proc.h"

_Thread_local uid_t pool_user = PROC_NOBODY;

void pool_init(struct pool *p, enum pool_kind kind, int starter)
{
	*p = (struct pool){ .kind = kind, .starter = starter };
	pthread_mutex_init(&p->lock, NULL);
}

static void close_all(int *sockets, size_t *n)
{
	while (*n > 0)
		close(sockets[--*n]);
}

void pool_deinit(struct pool *p)
{
	close_all(p->idle, &p->n_idle);
	close_all(p->left, &p->n_left);
	pthread_mutex_destroy(&p->lock);
}

void pool_end(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->starter = -1;
	close_all(p->idle, &p->n_idle);
	close_all(p->left, &p->n_left);
	pthread_mutex_unlock(&p->lock);
}

bool pool_was_woken(struct pool *p)
{
	bool ret;

	pthread_mutex_lock(&p->lock);
	ret = p->woken;
	pthread_mutex_unlock(&p->lock);
	return ret;
}

int pool_start(struct pool *p)
{
	char byte = (char)p->kind;
	int ends[2], r = -EPIPE;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	pthread_mutex_lock(&p->lock);
	p->woken = true;
	if (p->starter >= 0)
		r = fdpass_send(p->starter, &byte, 1, &ends[1], 1);
	pthread_mutex_unlock(&p->lock);
	close(ends[1]);
	if (r == 0)
		return ends[0];
	close(ends[0]);
	return r;
}

/* To one that waits, which may have ended; -EAGAIN: there is none; -EPIPE. */
static int take_idle(struct pool *p)
{
	int socket = -EAGAIN;

	pthread_mutex_lock(&p->lock);
	if (p->starter < 0)
		socket = -EPIPE;
	else if (p->n_idle > 0)
		socket = p->idle[--p->n_idle];
	pthread_mutex_unlock(&p->lock);
	return socket;
}

/* It has ended, or said what nobody asked for: the next answer would not be to the next question.
 */
static bool is_out_of_step(int socket)
{
	return poll(&(struct pollfd){ .fd = socket, .events = POLLIN }, 1, 0) != 0;
}

void pool_give(struct pool *p, int socket)
{
	bool keep = !is_out_of_step(socket);

	pthread_mutex_lock(&p->lock);
	if (keep && p->starter >= 0 && p->n_idle < POOL_IDLE) {
		p->idle[p->n_idle++] = socket;
		socket = -1;
	}
	pthread_mutex_unlock(&p->lock);
	if (socket >= 0)
		close(socket);
}

/* Those that answered meanwhile are let go. With the lock. */
static void let_go(struct pool *p)
{
	for (size_t i = p->n_left; i > 0; i--) {
		struct pollfd answer = { .fd = p->left[i - 1], .events = POLLIN };

		if (poll(&answer, 1, 0) == 0)
			continue;
		close(p->left[i - 1]);
		p->left[i - 1] = p->left[--p->n_left];
		p->left_by[i - 1] = p->left_by[p->n_left];
	}
}

static void leave(struct pool *p, int socket)
{
	pthread_mutex_lock(&p->lock);
	if (p->starter >= 0 && p->n_left < POOL_LEFT) {
		p->left_by[p->n_left] = pool_user;
		p->left[p->n_left++] = socket;
		socket = -1;
	}
	pthread_mutex_unlock(&p->lock);
	if (socket >= 0)
		close(socket);
}

size_t pool_count(const uid_t *users, size_t n, uid_t user)
{
	size_t ret = 0;

	for (size_t i = 0; i < n; i++)
		ret += users[i] == user;
	return ret;
}

bool pool_is_crowded(const uid_t *users, size_t n, uid_t user, size_t most)
{
	size_t own = pool_count(users, n, user);

	return own && n + own >= most;
}

/* How many do not answer. */
static size_t count_left(struct pool *p)
{
	size_t ret;

	pthread_mutex_lock(&p->lock);
	if (p->n_left > 0)
		let_go(p);
	ret = p->n_left;
	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* One more that hangs would be more of its user than are left for all others. */
static bool is_crowded(struct pool *p)
{
	bool ret;

	if (pool_user == PROC_NOBODY || 2 * count_left(p) < POOL_LEFT)
		return false;
	pthread_mutex_lock(&p->lock);
	ret = pool_is_crowded(p->left_by, p->n_left, pool_user, POOL_LEFT);
	pthread_mutex_unlock(&p->lock);
	return ret;
}

int pool_ask(struct pool *p, int (*send)(const void *arg, int socket), const void *arg)
{
	int socket, r;

	if (is_crowded(p))
		return -EAGAIN;
	while ((socket = take_idle(p)) >= 0) {
		r = send(arg, socket);
		if (r == 0)
			return socket;
		close(socket);
		if (r != -EPIPE)
			return r;
	}
	if (socket == -EAGAIN)
		socket = count_left(p) == POOL_LEFT ? -EAGAIN : pool_start(p);
	r = socket < 0 ? 0 : send(arg, socket);
	if (r == 0 || r == -EPIPE) /* why a new one has ended, its answer tells */
		return socket;
	close(socket);
	return r;
}

bool pool_answers(struct pool *p, int socket, int ms)
{
	struct pollfd answer = { .fd = socket, .events = POLLIN };
	uint64_t until = now_ns() + (uint64_t)MAX(ms, 0) * 1000000;
	int r;

	while ((r = poll(&answer, 1, ms)) < 0 && errno == EINTR)
		if (ms >= 0)
			ms = now_ns() < until ? (int)((until - now_ns()) / 1000000) : 0;
	if (r == 0)
		leave(p, socket);
	return r != 0;
}
