/* SPDX-License-Identifier: MIT
 *
 * tape_story - a small tape as the sink writes it, with every kind of chunk that has names,
 * for tests of its reader.
 */
#ifndef TAPE_STORY_H
#define TAPE_STORY_H

#include <stdio.h>
#include <stdlib.h>

#include "../../output/sink.h"
#include "sample/tape.h"

extern const struct sink_ops sink_tape;

static const struct pyfunc story_funcs[] = {
	{ "a b;c(d)\\e", "/srv/a b.py", 5, 6, 14, 70, false },
	{ "gr\303\266\303\237e\n.\360\237\220\215", "<string>", 1, 1, 1, 71, false },
};

/* For session.told, which then has nothing of the machine that runs the test: one record, the name
 * of a host. */
static inline struct bytes story_told(void)
{
	static const uint64_t record[] = { 80 | UINT64_C(24) << 48, 3, 0x74736f68 };

	return (struct bytes){ (const unsigned char *)record, sizeof(record) };
}

static const unsigned char story_id[] = "an id of twenty bytes";

/* A program's file, and the kernel's own map as it was before. */
static inline void story_maps(struct sink *s)
{
	struct side side = {
		.kind = SIDE_MMAP,
		.pid = 10,
		.tid = 11,
		.time = 900,
		.cpu = 3,
		.u.mmap = { .addr = 1,
			    .len = 2,
			    .pgoff = 3,
			    .ino = 4,
			    .ino_generation = 5,
			    .maj = 6,
			    .min = 7,
			    .prot = 8,
			    .flags = 9,
			    .path = "/usr/bin/python3",
			    .file_id = { story_id, 20 } },
	};

	s->ops->side(s, &side);
	side.u.mmap.build_id = story_id;
	side.u.mmap.build_id_n = 4;
	side.u.mmap.file_id.n = 0;
	s->ops->side(s, &side);
	side.announced = side.u.mmap.kernel = true;
	side.pid = -1;
	side.u.mmap.path = "[kernel.kallsyms]_text";
	s->ops->side(s, &side);
}

/* Six samples, and what befell threads before and after them. */
static inline void story_tell(const struct session *session, FILE *out)
{
	const struct frame frames[] = {
		{ .kind = FRAME_KERNEL, .ip = 1, .name = "sys_read_[k]" },
		{ .kind = FRAME_NATIVE, .ip = 2 },
		{ .kind = FRAME_NATIVE,
		  .ip = 3,
		  .name = "libc.so.6+0x12",
		  .file = "libc.so.6" },
		{ .kind = FRAME_PYTHON, .func = &story_funcs[0], .line = 7 },
		{ .kind = FRAME_PYTHON, .func = &story_funcs[1] },
		{ .kind = FRAME_PYTHON, .func = &story_funcs[0], .line = 8 },
		{ .kind = FRAME_MARKER, .name = "[late]" },
	};
	const struct stack stacks[] = { { 7, frames, 0 },
					{ 2, frames + 3, 0 },
					{ 0, NULL, 0 } };
	struct sample smp = { .pid = 10, .tid = 11, .time = 1000, .period = 7, .cpu = 1,
			      .ip = 77, .misc = 2 };
	struct side side = { .kind = SIDE_COMM, .pid = 10, .tid = 10, .time = 900 };
	struct sink s = { .ops = &sink_tape,
			  .session = session,
			  .path = "story.tape",
			  .folder = -1,
			  .out = out,
			  .priv = calloc(1, sink_tape.priv_size) };
	struct err err;

	if (!s.priv || s.ops->begin(&s, &err) < 0)
		abort();
	side.u.comm.name = "python3";
	side.u.comm.exec = true;
	s.ops->side(&s, &side);
	side.tid = 11;
	side.u.comm.name = "wor\nker";
	side.u.comm.exec = false;
	side.u.comm.thread = true;
	side.u.comm.until = 950;
	s.ops->side(&s, &side);
	story_maps(&s);
	side.kind = SIDE_FORK;
	side.u.fork.ppid = 1;
	side.u.fork.ptid = 2;
	s.ops->side(&s, &side);
	for (unsigned i = 0; i < 6; i++) {
		smp.time++;
		smp.event = i % 2;
		smp.prov = i % PROV_N;
		smp.addr = i % 2 ? 88 : 0;
		s.ops->raw(&s, TAPE_JUDGED, (struct bytes){ 0 }, (struct bytes){ 0 });
		s.ops->sample(&s, &smp, &stacks[i % 3]);
	}
	s.ops->round(&s);
	side.kind = SIDE_THROTTLE;
	s.ops->side(&s, &side);
	side.kind = SIDE_EXIT;
	s.ops->side(&s, &side);
	side.kind = SIDE_LOST;
	side.u.lost.n = 5;
	s.ops->side(&s, &side);
	s.ops->end(&s, &err);
	free(s.priv);
}

#endif
