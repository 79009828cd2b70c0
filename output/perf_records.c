/* SPDX-License-Identifier: MIT
 *
 * perf_records - one record a function; fields as in perf_event_open(2).
 */
#include "perf_records.h"

#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/base.h"
#include "perf_file.h"

#define KERNEL_DSO "[kernel.kallsyms]"

enum {
	RECORD_MAX = 65528,
	RECORD_BUILD_ID = 67,
	RECORD_FINISHED_ROUND = 68,
	MAX_KEPT = 4,	       /* markers of an elided middle */
	COMM_MAX = 16,	       /* the kernel's */
	THREAD_NAME_MAX = 128, /* the program's */
	NAMES_MAX = 1 << 20,   /* bytes for those of processes and main threads */
};

/* In the table of a file, or a record of a stream, which has none. */
static void put_build_id(struct perf_records *r, const char *path, unsigned misc,
			 struct buildid id)
{
	struct buf *b = r->stream ? &r->buf : &r->build_ids;
	size_t start = b->n;

	perf_file_build_id(b, path, -1, misc, id);
	if (r->stream)
		buf_set_u32(b, start, RECORD_BUILD_ID);
}

int perf_records_init(struct perf_records *r, const struct session *s, const char *pyelf_path,
		      bool stream)
{
	*r = (struct perf_records){
		.stream = stream,
		.shown = s->shown,
		.sample_type = perf_file_sample_type(s),
		.pyelf_path = pyelf_path,
		.id.n = PYELF_BUILD_ID,
	};
	if (getrandom(r->id.at, PYELF_BUILD_ID, 0) != PYELF_BUILD_ID)
		return -errno;
	r->pyelf = pyelf_create(0, r->id.at);
	r->dsos = strtab_create();
	r->names = strtab_create();
	if (!r->pyelf || !r->dsos || !r->names)
		return -ENOMEM;
	put_build_id(r, pyelf_path, PERF_RECORD_MISC_USER, r->id);
	return 0;
}

void perf_records_deinit(struct perf_records *r)
{
	buf_deinit(&r->buf);
	buf_deinit(&r->build_ids);
	buf_deinit(&r->dso_ids);
	idmap_deinit(&r->pids);
	pyelf_destroy(r->pyelf);
	strtab_destroy(r->dsos);
	strtab_destroy(r->names);
	comms_deinit(&r->comms);
	*r = (struct perf_records){};
}

static size_t begin_record(struct perf_records *r, uint32_t type, unsigned misc)
{
	size_t start = r->buf.n;

	buf_u32(&r->buf, type);
	buf_u16(&r->buf, misc);
	buf_zero(&r->buf, sizeof(uint16_t)); /* its size */
	return start;
}

static int end_record(struct perf_records *r, size_t start)
{
	buf_set_u16(&r->buf, start + 6, (unsigned)(r->buf.n - start));
	if (!r->buf.oom)
		return 0;
	r->buf.oom = false;
	r->buf.n = start;
	return -ENOMEM;
}

/* What sample_id_all puts at the end, and the end of the record. */
static int end_record_id(struct perf_records *r, size_t start, const struct side *side)
{
	buf_u32(&r->buf, (uint32_t)side->pid);
	buf_u32(&r->buf, (uint32_t)side->tid);
	buf_u64(&r->buf, side->time);
	buf_u32(&r->buf, side->cpu);
	buf_u32(&r->buf, 0);
	buf_u64(&r->buf, PERF_FILE_ID);
	return end_record(r, start);
}

static void put_ids(struct perf_records *r, pid_t pid, pid_t tid)
{
	buf_u32(&r->buf, (uint32_t)pid);
	buf_u32(&r->buf, (uint32_t)tid);
}

static void put_path(struct perf_records *r, const char *path)
{
	size_t n = MIN(strlen(path), (size_t)PATH_MAX - 1);

	buf_put(&r->buf, path, n);
	buf_u8(&r->buf, 0);
	buf_zero(&r->buf, (7 - n % 8) % 8);
}

static int put_kernel_map(struct perf_records *r, const struct side *side)
{
	size_t start = begin_record(r, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);

	put_ids(r, -1, 0);
	buf_u64(&r->buf, side->u.mmap.addr);
	buf_u64(&r->buf, side->u.mmap.len);
	buf_u64(&r->buf, side->u.mmap.pgoff);
	put_path(r, side->u.mmap.path);
	return end_record_id(r, start, side);
}

static int put_map(struct perf_records *r, const struct side *side)
{
	size_t id_n = MIN(side->u.mmap.build_id_n, (size_t)BUILDID_MAX);
	bool id = side->u.mmap.build_id && id_n;
	unsigned misc = PERF_RECORD_MISC_USER | (id ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0) |
			(side->u.mmap.prot & PROT_EXEC ? 0 : PERF_RECORD_MISC_MMAP_DATA);
	size_t start = begin_record(r, PERF_RECORD_MMAP2, misc);

	put_ids(r, side->pid, side->tid);
	buf_u64(&r->buf, side->u.mmap.addr);
	buf_u64(&r->buf, side->u.mmap.len);
	buf_u64(&r->buf, side->u.mmap.pgoff);
	if (id) {
		buf_u32(&r->buf, (uint32_t)id_n);
		buf_put(&r->buf, side->u.mmap.build_id, id_n);
		buf_zero(&r->buf, BUILDID_MAX - id_n);
	} else {
		buf_u32(&r->buf, side->u.mmap.maj);
		buf_u32(&r->buf, side->u.mmap.min);
		buf_u64(&r->buf, side->u.mmap.ino);
		buf_u64(&r->buf, side->u.mmap.ino_generation);
	}
	buf_u32(&r->buf, side->u.mmap.prot);
	buf_u32(&r->buf, side->u.mmap.flags);
	put_path(r, side->u.mmap.path);
	return end_record_id(r, start, side);
}

/* The symbol file is mapped in @at's process from then on. */
static int map_pyelf(struct perf_records *r, const struct side *at)
{
	struct side side = {
		.kind = SIDE_MMAP,
		.time = at->time,
		.pid = at->pid,
		.tid = at->pid,
		.cpu = at->cpu,
		.u.mmap =
			{
				.addr = PYELF_BASE + PYELF_TEXT,
				.len = PYELF_SPAN,
				.pgoff = PYELF_TEXT,
				.prot = PROT_READ | PROT_EXEC,
				.flags = MAP_PRIVATE,
				.path = r->pyelf_path,
				.build_id = r->id.at,
				.build_id_n = r->id.n,
			},
	};

	if (at->pid <= 0 || idmap_get(&r->pids, (uint32_t)at->pid) != IDMAP_NONE)
		return 0;
	if (idmap_set(&r->pids, (uint32_t)at->pid, 1))
		return -ENOMEM;
	return put_map(r, &side);
}

/* ---- what happens in the target ---- */

/* Keep what processes and their main threads are called, while there is room for new names. */
static int note_names(struct perf_records *r, const struct side *side)
{
	uint32_t name = STRTAB_NONE;

	if (side->kind == SIDE_COMM) {
		if (side->tid != side->pid)
			return 0;
		if (strtab_bytes(r->names) < NAMES_MAX)
			name = strtab_add(r->names, side->u.comm.name,
					  strlen(side->u.comm.name));
	}
	return comms_side(&r->comms, side, name);
}

/* NULL: not known. */
static const char *name_text(const struct perf_records *r, uint32_t name)
{
	return name == IDMAP_NONE ? NULL : strtab_get(r->names, name);
}

/* At most @cap - 1 bytes of it, and a NUL. */
static size_t put_name(struct perf_records *r, const char *name, size_t cap)
{
	size_t n = strnlen(name, cap - 1);

	buf_put(&r->buf, name, n);
	buf_u8(&r->buf, 0);
	return n + 1;
}

/* The process is called what the kernel calls its leader. What the program calls its main thread
 * stands behind the NUL, where perf and others do not look. */
static size_t put_leader(struct perf_records *r, const char *name, const char *title)
{
	size_t n = put_name(r, name, COMM_MAX);

	if (title && strcmp(title, name) != 0)
		n += put_name(r, title, THREAD_NAME_MAX);
	return n;
}

static int side_comm(struct perf_records *r, const struct side *side)
{
	bool leader = side->tid == side->pid, thread = side->u.comm.thread;
	const char *given = side->u.comm.name, *name = given;
	size_t start, n;
	int ret;

	if (leader && thread)
		name = name_text(r, comms_name(&r->comms, side->pid));
	if (!name) /* until the kernel's is told, too */
		return 0;
	start = begin_record(r, PERF_RECORD_COMM,
			     side->u.comm.exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
	put_ids(r, side->pid, side->tid);
	n = !leader ? put_name(r, name, thread ? THREAD_NAME_MAX : COMM_MAX) :
		      put_leader(r, name,
				 thread ? given :
					  name_text(r, comms_title(&r->comms, side->pid)));
	buf_zero(&r->buf, -n % 8);
	ret = end_record_id(r, start, side);
	if (side->u.comm.exec)
		idmap_set(&r->pids, (uint32_t)side->pid, IDMAP_NONE);
	return ret ? ret : map_pyelf(r, side);
}

/* hotspot knows only build-ids from the table: each file's is put there, once it is known. True:
 * that of another file of the same path is there. */
static bool note_build_id(struct perf_records *r, const struct side *side)
{
	const char *path = side->u.mmap.path;
	uint32_t known = strtab_count(r->dsos), i;
	struct buildid id, first;

	if (*path != '/' || !(side->u.mmap.prot & PROT_EXEC))
		return false;
	id = buildid_from(side->u.mmap.build_id ? (struct bytes){ side->u.mmap.build_id,
								  side->u.mmap.build_id_n } :
						  side->u.mmap.file_id);
	i = id.n ? strtab_add(r->dsos, path, strlen(path)) : (uint32_t)STRTAB_NONE;
	if (i == known) {
		put_build_id(r, path, PERF_RECORD_MISC_USER, id);
		buf_put(&r->dso_ids, &id, sizeof(id));
	}
	if (i == STRTAB_NONE || r->dso_ids.oom)
		return false;
	memcpy(&first, r->dso_ids.at + i * sizeof(first), sizeof(first));
	return first.n != id.n || memcmp(first.at, id.at, id.n) != 0;
}

/* A file that was rebuilt, or is of another root, tells its build-id itself. */
static int put_file(struct perf_records *r, const struct side *side)
{
	struct side own = *side;

	if (note_build_id(r, side) && !own.u.mmap.build_id) {
		own.u.mmap.build_id = side->u.mmap.file_id.at;
		own.u.mmap.build_id_n = side->u.mmap.file_id.n;
	}
	return put_map(r, &own);
}

/* One that is announced was there at the begin of another recording, which is read. */
static int side_kernel(struct perf_records *r, const struct side *side)
{
	bool own = !strncmp(side->u.mmap.path, KERNEL_DSO, strlen(KERNEL_DSO));
	struct perf_kernel_map map = {
		.addr = side->u.mmap.addr,
		.len = side->u.mmap.len,
		.pgoff = side->u.mmap.pgoff,
		.path = side->u.mmap.path,
		.dso = own ? KERNEL_DSO : side->u.mmap.path,
		.id = buildid_from(side->u.mmap.file_id),
	};

	if (side->announced)
		return perf_records_kernel(r, &map);
	/* the kernel's own map is written at begin */
	return own ? 0 : put_kernel_map(r, side);
}

static int side_mmap(struct perf_records *r, const struct side *side)
{
	int ret;

	if (side->u.mmap.kernel)
		return side_kernel(r, side);
	ret = map_pyelf(r, side);
	if (ret)
		return ret;
	return put_file(r, side);
}

static int side_fork_exit(struct perf_records *r, const struct side *side)
{
	uint32_t type = side->kind == SIDE_FORK ? PERF_RECORD_FORK : PERF_RECORD_EXIT;
	size_t start;

	if (side->kind == SIDE_EXIT && side->pid == side->tid)
		idmap_set(&r->pids, (uint32_t)side->pid, IDMAP_NONE);
	/* a child inherits the maps, if it is a child of a process that we know; a thread has
	 * them */
	if (side->kind == SIDE_FORK)
		idmap_set(&r->pids, (uint32_t)side->pid,
			  idmap_get(&r->pids, (uint32_t)side->u.fork.ppid));
	start = begin_record(r, type, 0);
	put_ids(r, side->pid, side->u.fork.ppid);
	put_ids(r, side->tid, side->u.fork.ptid);
	buf_u64(&r->buf, side->time);
	return end_record_id(r, start, side);
}

static int side_lost(struct perf_records *r, const struct side *side)
{
	size_t start = begin_record(r, PERF_RECORD_LOST_SAMPLES, 0);

	buf_u64(&r->buf, side->u.lost.n);
	return end_record_id(r, start, side);
}

static int side_throttle(struct perf_records *r, const struct side *side)
{
	size_t start = begin_record(r, PERF_RECORD_THROTTLE, 0);

	buf_u64(&r->buf, side->time);
	buf_u64(&r->buf, PERF_FILE_ID);
	buf_u64(&r->buf, 0);
	return end_record_id(r, start, side);
}

int perf_records_side(struct perf_records *r, const struct side *side)
{
	int ret = note_names(r, side);

	if (ret)
		return ret;
	switch (side->kind) {
	case SIDE_COMM:
		return side_comm(r, side);
	case SIDE_MMAP:
		return side_mmap(r, side);
	case SIDE_FORK:
	case SIDE_EXIT:
		return side_fork_exit(r, side);
	case SIDE_LOST:
		return side_lost(r, side);
	case SIDE_THROTTLE:
		return side_throttle(r, side);
	}
	return 0;
}

int perf_records_kernel(struct perf_records *r, const struct perf_kernel_map *map)
{
	const struct side side = {
		.kind = SIDE_MMAP,
		.pid = -1,
		.u.mmap = { .addr = map->addr,
			    .len = map->len,
			    .pgoff = map->pgoff,
			    .path = map->path,
			    .kernel = true },
	};

	if (map->id.n)
		put_build_id(r, map->dso, PERF_RECORD_MISC_KERNEL, map->id);
	return put_kernel_map(r, &side);
}

/* What lies in the last page, as a wild return address may, readers would take for a context. */
static uint64_t chain_ip(uint64_t ip)
{
	return MIN(ip, (uint64_t)PERF_CONTEXT_MAX - 1);
}

static uint64_t frame_ip(struct perf_records *r, const struct frame *f)
{
	switch (f->kind) {
	case FRAME_PYTHON:
		return PYELF_BASE + pyelf_line(r->pyelf, f->func, f->line);
	case FRAME_MARKER:
		return PYELF_BASE + pyelf_marker(r->pyelf, f->name);
	case FRAME_KERNEL:
	case FRAME_NATIVE:
		break;
	}
	return chain_ip(f->ip);
}

/* With a context marker before it where the kernel is left or entered. */
static void put_frame(struct perf_records *r, uint64_t *context, const struct frame *f)
{
	uint64_t want = f->kind == FRAME_KERNEL ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER;

	if (want != *context)
		buf_u64(&r->buf, want);
	*context = want;
	buf_u64(&r->buf, frame_ip(r, f));
}

static void put_marker(struct perf_records *r, uint64_t *context, const char *name)
{
	put_frame(r, context, &(struct frame){ .kind = FRAME_MARKER, .name = name });
}

/* The frames of a deep stack from @from on, below @to, which readers would not show: they
 * would leave out the root. */
struct elided {
	size_t from, to;
	size_t n_markers; /* among them, which say what the stack is worth: they stay */
};

static struct elided choose_elided(const struct perf_records *r, const struct stack *stk)
{
	struct elided e = { stk->n, stk->n, 0 };
	size_t most = r->shown;

	if (!most || stk->n <= most)
		return e;
	e.from = (most - 1) / 2;
	e.to = stk->n - (most - 1 - e.from);
	for (size_t i = e.from; i < e.to && e.n_markers < MAX_KEPT; i++)
		if (stk->frames[i].kind == FRAME_MARKER) {
			e.n_markers++;
			e.to++;
		}
	return e;
}

static void put_elided(struct perf_records *r, uint64_t *context, const struct stack *stk,
		       struct elided e)
{
	put_marker(r, context, "[elided]");
	for (size_t i = e.from; e.n_markers; i++)
		if (stk->frames[i].kind == FRAME_MARKER) {
			put_frame(r, context, &stk->frames[i]);
			e.n_markers--;
		}
	r->n_elided++;
}

/* The chain, and its length before it. Cut at the root where it would be longer than a record:
 * [truncated] stands there. */
static bool put_chain(struct perf_records *r, size_t record, const struct sample *smp,
		      const struct stack *stk)
{
	struct elided e = choose_elided(r, stk);
	uint64_t context = 0, nr = 0;
	size_t at = r->buf.n, i;
	bool kernel;

	buf_zero(&r->buf, sizeof(nr));
	for (i = 0; i < stk->n && r->buf.n - record + 32 <= RECORD_MAX; i++) {
		if (i == e.from) {
			put_elided(r, &context, stk, e);
			i = e.to;
		}
		put_frame(r, &context, &stk->frames[i]);
	}
	if (i < stk->n)
		put_marker(r, &context, "[truncated]");
	if (!stk->n) {
		kernel =
			(smp->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
		buf_u64(&r->buf, kernel ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER);
		buf_u64(&r->buf, chain_ip(smp->ip));
	}
	nr = (r->buf.n - at) / 8 - 1;
	if (!r->buf.oom)
		memcpy(r->buf.at + at, &nr, sizeof(nr));
	return i < stk->n;
}

int perf_records_sample(struct perf_records *r, const struct sample *smp,
			const struct stack *stk, bool *cut)
{
	const struct side at = { .time = smp->time, .pid = smp->pid, .cpu = smp->cpu };
	unsigned misc = smp->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	size_t start;
	int ret = map_pyelf(r, &at);

	if (ret)
		return ret;
	if (stk->n)
		misc = stk->frames[0].kind == FRAME_KERNEL ? PERF_RECORD_MISC_KERNEL :
							     PERF_RECORD_MISC_USER;
	start = begin_record(r, PERF_RECORD_SAMPLE, misc);
	buf_u64(&r->buf, PERF_FILE_ID + smp->event);
	buf_u64(&r->buf, stk->n ? frame_ip(r, &stk->frames[0]) : smp->ip);
	put_ids(r, smp->pid, smp->tid);
	buf_u64(&r->buf, smp->time);
	if (r->sample_type & PERF_SAMPLE_ADDR)
		buf_u64(&r->buf, smp->addr);
	buf_u32(&r->buf, smp->cpu);
	buf_u32(&r->buf, 0);
	buf_u64(&r->buf, smp->period);
	*cut = put_chain(r, start, smp, stk);
	return end_record(r, start);
}

int perf_records_round(struct perf_records *r)
{
	return end_record(r, begin_record(r, RECORD_FINISHED_ROUND, 0));
}
