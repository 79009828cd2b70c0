/* SPDX-License-Identifier: MIT
 *
 * fuse - file systems that do not answer, for tests: root only.
 */
#ifndef TEST_FUSE_H
#define TEST_FUSE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file system whose server never answers. Closing the descriptor ends all waits. */
static inline int mount_dead(const char *path)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[64];

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd >= 0 && mount("dead", path, "fuse", MS_NODEV | MS_NOSUID, options) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	printf("no FUSE can be mounted here\n");
	return -1;
}

/* A file system with one file, "prog" of 1 MiB, that can be opened but never read. */
static inline size_t fuse_answer(const struct fuse_in_header *in, void *out)
{
	bool file = in->opcode == FUSE_LOOKUP || in->nodeid == 2;
	struct fuse_attr attr = { .ino = file ? 2 : 1,
				  .size = file ? 1 << 20 : 0,
				  .mode = file ? S_IFREG | 0755 : S_IFDIR | 0755,
				  .nlink = 1 };

	switch (in->opcode) {
	case FUSE_INIT:
		*(struct fuse_init_out *)out =
			(struct fuse_init_out){ .major = FUSE_KERNEL_VERSION,
						.minor = FUSE_KERNEL_MINOR_VERSION,
						.max_write = 4096 };
		return sizeof(struct fuse_init_out);
	case FUSE_LOOKUP:
		*(struct fuse_entry_out *)out = (struct fuse_entry_out){ .nodeid = 2,
									 .entry_valid = 60,
									 .attr = attr };
		return sizeof(struct fuse_entry_out);
	case FUSE_GETATTR:
		*(struct fuse_attr_out *)out =
			(struct fuse_attr_out){ .attr_valid = 60, .attr = attr };
		return sizeof(struct fuse_attr_out);
	case FUSE_OPEN:
		*(struct fuse_open_out *)out = (struct fuse_open_out){ .fh = 1 };
		return sizeof(struct fuse_open_out);
	default:
		return 0;
	}
}

/* Where the server waits for a byte before it answers who opens the file, and where to it writes
 * one when nobody has it open any more. -1: neither. */
struct fuse_gate {
	int open, closed;
	uint32_t fails; /* the request that it answers with @error; 0: none */
	int error;
	bool each_second; /* only each second one of those; what the others are told lasts 0 s */
};

/* The errno that @opcode is answered with, without a body; 0: it is answered, or never. */
static inline int fuse_error(const struct fuse_gate *g, uint32_t opcode, size_t body, int *n)
{
	if (opcode == g->fails && opcode)
		return !g->each_second || ++*n % 2 == 0 ? g->error : 0;
	return body ? 0 : ENOSYS;
}

static inline bool pass_gate(const struct fuse_gate *g, uint32_t opcode)
{
	char byte = 0;

	if (opcode == FUSE_OPEN && g->open >= 0)
		return read(g->open, &byte, 1) == 1;
	if (opcode == FUSE_RELEASE && g->closed >= 0)
		return write(g->closed, &byte, 1) == 1;
	return true;
}

static inline void serve_unread(int fd, const struct fuse_gate *gate)
{
	static unsigned char in[1 << 18];
	const struct fuse_in_header *head = (const struct fuse_in_header *)(void *)in;
	struct {
		struct fuse_out_header head;
		unsigned char body[256];
	} out;
	int n_failing = 0;

	while (read(fd, in, sizeof(in)) > 0 && pass_gate(gate, head->opcode)) {
		size_t n = fuse_answer(head, out.body);
		int error = fuse_error(gate, head->opcode, n, &n_failing);

		if (error)
			n = 0;
		else if (gate->each_second && head->opcode == FUSE_GETATTR)
			((struct fuse_attr_out *)(void *)out.body)->attr_valid = 0;
		out.head = (struct fuse_out_header){ .len = (uint32_t)(sizeof(out.head) + n),
						     .error = -error,
						     .unique = head->unique };
		if (head->opcode != FUSE_READ && head->opcode != FUSE_FORGET &&
		    head->opcode != FUSE_INTERRUPT && write(fd, &out, out.head.len) < 0)
			break;
	}
}

/* Its server: a process, for the file system ends with it. */
static inline pid_t mount_gated(const char *path, const struct fuse_gate *gate)
{
	int fd = mount_dead(path);
	pid_t server = fd < 0 ? -1 : fork();

	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve_unread(fd, gate);
		_exit(0);
	}
	if (fd >= 0)
		close(fd);
	return server;
}

static inline pid_t mount_unread(const char *path)
{
	return mount_gated(path, &(struct fuse_gate){ .open = -1, .closed = -1 });
}

#endif
