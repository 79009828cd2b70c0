/* SPDX-License-Identifier: MIT
 *
 * perf_frames - knows what was mapped where, and asks who has names.
 */
#include "perf_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "arch/arch.h"
#include "base/clock.h"
#include "base/strtab.h"
#include "modules/jit.h"
#include "modules/space.h"
#include "unwind/unwind.h"
#include "symbolize.h"
#include "buildid.h"
#include "perf_kernel.h"
#include "perf_maps.h"
#include "pyelf.h"
#include "pyelf_read.h"

enum { MAX_MODULES = 128 << 20 /* bytes */, MAX_UNWOUND = 1024 };

/* PERF_CONTEXT_USER_DEFERRED, 6.19: what ran in user mode is told by a later record. */
#define CONTEXT_DEFERRED ((uint64_t)-640)

#define UNNAMED "[unnamed]"
#define UNKNOWN "[unknown]"

struct perf_frames {
	const struct perf_head *head;
	FILE *in;
	const char *path;
	struct pyelf_table python;
	bool looked_for_python; /* then @python is empty if there was none */
	bool looked_for_kernel, same_kernel;
	struct spaces *spaces;
	struct symbolizer *symbols;
	struct unwinder *unwinder;
	struct perf_maps *maps;
	struct strtab *texts; /* of threads, and files that are others by now */
	uint64_t unnamed;     /* frames of Python */
	struct unwind_frame unwound[MAX_UNWOUND]; /* scratch memory */
};

const char *perf_frames_keep(struct perf_frames *f, const char *text)
{
	uint32_t id = strtab_add(f->texts, text, strlen(text));

	return id == STRTAB_NONE ? NULL : strtab_get(f->texts, id);
}

static int read_embedded(struct perf_frames *f, struct bytes id)
{
	struct bytes image = { 0 };
	int ret = perf_head_pyelf(f->head, f->in, &image);

	if (!ret)
		ret = pyelf_read(&f->python, -1, image, id);
	free((void *)(uintptr_t)image.at);
	return ret;
}

static int read_file(struct perf_frames *f, int fd, struct bytes id)
{
	int ret = fd < 0 ? fd : pyelf_read(&f->python, fd, (struct bytes){ 0 }, id);

	if (fd >= 0)
		close(fd);
	return ret;
}

static int read_beside(struct perf_frames *f, struct bytes id)
{
	char path[PATH_MAX];

	if (!f->path || snprintf(path, sizeof(path), "%s" PYELF_BESIDE, f->path) >= PATH_MAX)
		return -ENOENT;
	return read_file(f, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), id);
}

/* Where perf looks for it: a stream has no other place. */
static int read_cached(struct perf_frames *f, struct bytes id)
{
	return read_file(f, buildid_cache_open(buildid_from(id)), id);
}

static int find_python(struct perf_frames *f, struct bytes id)
{
	off_t at = ftello(f->in);

	if (f->looked_for_python || !id.n)
		return 0;
	f->looked_for_python = true;
	if (read_embedded(f, id) && read_beside(f, id))
		read_cached(f, id);
	return fseeko(f->in, at, SEEK_SET) ? -errno : 0;
}

/* The first record of a map of the kernel, and its map of now. */
struct kernel_question {
	const struct perf_frames *f;
	struct perf_kernel_map then;
	struct bytes id; /* its build-id, if it stands in the record and not in the table */
	bool same;
};

/* perf record -z notes no build-ids; the place is drawn by lot at each boot, but not on every
 * machine. */
static bool is_our_release(const struct perf_head *head)
{
	struct utsname u;

	return uname(&u) == 0 && strcmp(head->release, u.release) == 0;
}

/* @then may have zeros behind it. */
static bool is_same_id(struct bytes then, const unsigned char *now, size_t n)
{
	bool ret = n && n <= then.n && !memcmp(then.at, now, n);

	for (; ret && n < then.n; n++)
		ret = !then.at[n];
	return ret;
}

/* A map ends where the code does, or further on: perf's at the end of the data since Linux 6.6, and
 * ours, which root makes by /proc/iomem, on arm64 where the code for the start begins. */
static int compare_kernel(void *ctx, const struct perf_kernel_map *now)
{
	struct kernel_question *q = ctx;
	struct bytes id = q->id.n ? q->id : perf_head_build_id(q->f->head, now->dso);

	q->same = q->then.addr == now->addr && q->then.len >= now->len &&
		  q->then.pgoff == now->pgoff &&
		  (id.n ? is_same_id(id, now->id.at, now->id.n) : is_our_release(q->f->head));
	return 1;
}

void perf_frames_kernel(struct perf_frames *f, const struct perf_event_header *h)
{
	const unsigned char *body = (const unsigned char *)(h + 1);
	struct kernel_question q = { .f = f };

	if (f->looked_for_kernel || h->size < sizeof(*h) + 32)
		return;
	q.then.addr = load_u64(body + 8);
	q.then.len = load_u64(body + 16);
	q.then.pgoff = load_u64(body + 24);
	if (h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID && h->size >= sizeof(*h) + 56)
		q.id = (struct bytes){ body + 36, MIN(body[32], 20) };
	perf_kernel_maps(compare_kernel, &q);
	f->looked_for_kernel = true;
	f->same_kernel = q.same;
	if (q.same)
		spaces_same_kernel(f->spaces);
}

/* A file that is another by now, or of which that is not known, lends no names. */
static int map_changed(struct perf_frames *f, struct side *side)
{
	struct bytes then = { side->u.mmap.build_id, side->u.mmap.build_id_n };
	struct bytes now = side->u.mmap.file_id;
	char path[PATH_MAX + 16];

	/* The record knows better than the table, which has one for each path. */
	if (!then.at || !then.n)
		then = perf_head_build_id(f->head, side->u.mmap.path);
	if (!then.n || is_same_id(then, now.at, now.n))
		return 0;
	if (f->same_kernel && strcmp(side->u.mmap.path, "[vdso]") == 0)
		return 0;
	snprintf(path, sizeof(path), "%s (%s)", side->u.mmap.path,
		 now.n ? "another" : "unread");
	side->u.mmap.path = perf_frames_keep(f, path);
	if (!side->u.mmap.path)
		return -ENOMEM;
	spaces_side(f->spaces, side);
	return 0;
}

static int take_map(struct perf_frames *f, struct side *side)
{
	if (side->u.mmap.addr == PYELF_BASE + PYELF_TEXT)
		return find_python(
			f, (struct bytes){ side->u.mmap.build_id, side->u.mmap.build_id_n });
	/* What a process wrote down of its own code: perf_maps. */
	if (jit_is_memory(side->u.mmap.path) || strstr(side->u.mmap.path, "/jit-"))
		side->u.mmap.prot = 0;
	if (!side->u.mmap.ino) /* a build-id stood in its place */
		side->u.mmap.ino = 1;
	spaces_side(f->spaces, side);
	return map_changed(f, side);
}

int perf_frames_side(struct perf_frames *f, struct side *side)
{
	if (side->kind == SIDE_MMAP)
		return take_map(f, side);
	if (side->kind == SIDE_FORK && side->pid != side->u.fork.ppid)
		perf_maps_fork(f->maps, side->pid, side->u.fork.ppid);
	spaces_side(f->spaces, side);
	return 0;
}

/* ---- addresses ---- */

static struct frame python_frame(struct perf_frames *f, uint64_t addr)
{
	struct frame ret;

	if (pyelf_frame(&f->python, addr, &ret))
		return ret;
	f->unnamed++;
	return (struct frame){ .kind = FRAME_MARKER, .name = UNNAMED };
}

/* @leaf: the event was there; else it is where a call returns to. */
static struct frame user_frame(struct perf_frames *f, pid_t pid, uint64_t ip, bool leaf)
{
	struct frame ret = { .kind = FRAME_NATIVE, .ip = ip };
	struct symbol symbol;

	if ((f->head->ours || f->looked_for_python) &&
	    ip - PYELF_BASE < PYELF_TEXT + (uint64_t)PYELF_SPAN)
		return python_frame(f, ip - PYELF_BASE);
	symbol = symbolize(f->symbols, pid, ip - !leaf);
	ret.name = symbol.name;
	ret.file = symbol.file;
	if (!strcmp(ret.name, UNKNOWN))
		perf_maps_frame(f->maps, pid, ip - !leaf, PYELF_MAX_FUNCS, &ret);
	return ret;
}

static struct frame kernel_frame(struct perf_frames *f, uint64_t ip)
{
	return (struct frame){ .kind = FRAME_KERNEL,
			       .ip = ip,
			       .name = f->same_kernel ? symbolize_kernel(f->symbols, ip) :
							"[kernel]_[k]" };
}

/* The registers that we know of those that @a has; false: too few. */
static bool take_regs(const struct perf_event_attr *a, const unsigned char *at,
		      unsigned char ret[ARCH_MAX_REGS * 8])
{
	uint64_t has = a->sample_regs_user, want = arch_host->perf_regs;

	if (!at || (has & want) != want)
		return false;
	for (; has; has &= has - 1, at += 8)
		if (want & has & -has) {
			memcpy(ret, at, 8);
			ret += 8;
		}
	return true;
}

/* Frames from a copy of the stack (perf record --call-graph dwarf), and a marker where callers are
 * missing. */
static size_t unwind(struct perf_frames *f, const struct perf_event_attr *a, pid_t pid,
		     const struct perf_taken *t, struct frame *ret, size_t cap)
{
	struct unwind_stack s = { .frame = f->unwound, .cap = MIN(cap, (size_t)MAX_UNWOUND) };
	unsigned char words[ARCH_MAX_REGS * 8];
	struct unwind_memory mem = { 0 };
	struct unwind_regs regs;

	if (!s.cap || !take_regs(a, t->regs, words))
		return 0;
	unwind_regs_perf(&regs, words);
	mem.piece[0].at = load_u64(words + arch_host->sp * 8);
	mem.piece[0].bytes = t->stack;
	unwinder_stack(f->unwinder, pid, &regs, &mem, NULL, NULL, &s);
	for (size_t i = 0; i < s.n; i++)
		ret[i] = user_frame(f, pid, s.frame[i].pc, !s.frame[i].returned);
	if (s.end != UNWIND_BOTTOM && s.n < cap)
		ret[s.n++] = (struct frame){ .kind = FRAME_MARKER,
					     .name = unwind_end_name(s.end) };
	return s.n;
}

/* The callers in user mode, by calls that the processor kept: more is known of them than the kernel
 * finds where code has no frame pointers. */
static size_t take_calls(struct perf_frames *f, const struct perf_taken *t, struct frame *ret,
			 size_t cap)
{
	size_t n = MIN(cap, t->n_calls);

	for (size_t i = 0; i < n; i++)
		ret[i] = user_frame(f, t->pid, load_u64(t->calls + PERF_LAYOUT_CALL * i), true);
	return n;
}

static size_t take_chain(struct perf_frames *f, const struct perf_taken *t, struct frame *ret,
			 size_t cap)
{
	bool kernel = false, leaf = true, user = false;
	size_t k = 0;

	for (size_t i = 0; i < t->n_chain && k < cap; i++) {
		uint64_t ip = load_u64(t->chain + 8 * i);

		if (ip == CONTEXT_DEFERRED) /* a number stands behind it */
			break;
		if (ip >= PERF_CONTEXT_MAX) {
			kernel = ip == PERF_CONTEXT_KERNEL;
			user = ip == PERF_CONTEXT_USER;
			continue;
		}
		ret[k] = kernel ? kernel_frame(f, ip) : user_frame(f, t->pid, ip, leaf);
		/* What a wait is for stands above where it began. */
		leaf &= kernel || ret[k].kind == FRAME_MARKER;
		k++;
		if (user && t->n_calls) /* from the innermost frame on */
			return k + take_calls(f, t, ret + k, cap - k);
	}
	return k;
}

size_t perf_frames_take(struct perf_frames *f, const struct perf_event_attr *a, uint16_t misc,
			const struct perf_taken *t, struct frame *ret, size_t cap)
{
	bool kernel = (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	size_t n = take_chain(f, t, ret, cap);

	if (t->stack.n)
		n += unwind(f, a, t->pid, t, ret + n, cap - n);
	if (!n && cap)
		ret[n++] =
			kernel ? kernel_frame(f, t->ip) : user_frame(f, t->pid, t->ip, true);
	return n;
}

uint64_t perf_frames_state(const struct perf_frames *f, pid_t pid)
{
	const struct space *sp = spaces_find(f->spaces, pid);

	return (sp ? sp->gen : 0) << 20 ^ f->spaces->n_opened;
}

uint64_t *perf_frames_unnamed(struct perf_frames *f)
{
	return &f->unnamed;
}

bool perf_frames_have_python(const struct perf_frames *f)
{
	return f->python.n;
}

/* ---- the whole ---- */

/* When the recording ended: its file may be a copy that was made later. */
static struct timespec end_of(const struct perf_frames *f)
{
	const int64_t told = clock_second_after(f->head->epoch_ns, f->head->last_ns);
	struct stat st = { 0 };

	if (fileno(f->in) < 0 || fstat(fileno(f->in), &st))
		st.st_mtim.tv_sec = INT_MAX;
	return st.st_mtim.tv_sec < told ? st.st_mtim : (struct timespec){ .tv_sec = told };
}

static bool make_parts(struct perf_frames *f)
{
	f->texts = strtab_create();
	f->spaces = spaces_create(MAX_MODULES, SPACES_IDS | SPACES_ROWS);
	f->symbols = f->spaces ? symbolizer_create(f->spaces) : NULL;
	f->unwinder = f->spaces ? unwinder_create(f->spaces) : NULL;
	f->maps = perf_maps_create(end_of(f));
	if (!f->texts || !f->symbols || !f->unwinder || !f->maps)
		return false;
	spaces_elsewhere(f->spaces, "/");
	return true;
}

struct perf_frames *perf_frames_create(const struct perf_head *head, FILE *in,
				       const char *path)
{
	struct perf_frames *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->head = head;
	f->in = in;
	f->path = path;
	if (make_parts(f))
		return f;
	perf_frames_destroy(f);
	return NULL;
}

void perf_frames_destroy(struct perf_frames *f)
{
	if (!f)
		return;
	pyelf_table_deinit(&f->python);
	unwinder_destroy(f->unwinder);
	symbolizer_destroy(f->symbols);
	perf_maps_destroy(f->maps);
	spaces_destroy(f->spaces);
	strtab_destroy(f->texts);
	free(f);
}
