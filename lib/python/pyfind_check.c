/* SPDX-License-Identifier: MIT
 *
 * pyfind_check - does the layout fit the live process? Follows runtime,
 * interpreter, thread, frame and code object, and believes nothing on the way.
 */
#include <errno.h>
#include <time.h>

#include "arch/arch.h"
#include "base/base.h"
#include "pyframe_walk.h"
#include "python/pycompiled.h"
#include "python/pycode.h"
#include "python/pyfind.h"
#include "python/pyfind_types.h"
#include "remote/remote_pages.h"

enum {
	MAX_THREADS = 256, /* an interpreter; more are as good as these */
	MAX_FRAMES = 64,
	MAX_GENERATORS = 10000, /* one in another; more are as good as these */
	FRAMES_PROVEN = 4,	/* of a thread, from the innermost on, where it has as many */
	/* The target runs while we read: of tasks in quick turns, one look in 70 is whole. */
	ATTEMPTS = 4000,
	ATTEMPTS_AT_ONCE = 100,
	ATTEMPT_NS = 500 * 1000,
	PID_MAX = 1 << 22,
	CHUNK_UNIT = 4096, /* bytes */
	LOOK_PAGES = 28,   /* of one look; more are read again */
	OWNER_MAX = 8,	   /* frame owners; 3.15 has five */
};

#define UNIQUE_MAX (1ull << 40)

/* What a frame's code says of the layout. Nothing: it is like one that was made by hand. */
enum verdict { WRONG, NOTHING, RIGHT };

struct check {
	const struct pyproc *p;
	struct rmem *m;
	struct pycode_copy *copy; /* PYCODE_COPY_MAX bytes */
	uint32_t idle;		  /* threads whose state is right and that have no frame */
	uint32_t proven;	  /* threads whose innermost frame's code is right */
	char wrong[256];	  /* the last thing that was not right */
};

#define wrong(check, ...) snprintf((check)->wrong, sizeof((check)->wrong), __VA_ARGS__)

static uint64_t frame_u64(const unsigned char *frame, pyoff o)
{
	return load_u64(frame + pyoff_get(o));
}

/* The same up to 3.10: f_lasti (in bytes, -2 at the start) lies in the bytecode. C code links
 * frames whose bytecode is empty: expat of 2.7, Nuitka. */
static bool lasti_fits(struct check *c, const unsigned char *head, uint64_t lasti)
{
	const struct pylayout *l = &c->p->layout;
	raddr bytes = load_u64(head + pyoff_get(l->code.instructions));
	uint64_t n;

	if (rmem_read_u64(c->m, bytes + pyoff_get(l->bytes.size), &n) < 0 || n > INT32_MAX ||
	    (lasti >= n && lasti != (uint64_t)-2)) {
		wrong(c, "an instruction is outside its code object");
		return false;
	}
	return true;
}

/* The numbers that no code object has wrong: they prove the offsets at its end. One without a
 * RESUME is never traced. From 3.13 on the static _Py_InitCleanup, whose frame is below that of
 * each __init__ that a specialized call enters, has 3 instructions and names the fourth. */
static bool code_numbers(struct check *c, const unsigned char *head, raddr code, raddr instr,
			 int32_t tlbc)
{
	const struct pylayout *l = &c->p->layout;
	uint64_t units; /* ob_size */
	raddr bytecode;

	if (l->lasti_unit)
		return lasti_fits(c, head, instr - code);
	units = load_u64(head + pyoff_get(l->object.type) + 8);
	bytecode = code + pyoff_get(l->code.bytecode);
	if (units == 0 || units > INT32_MAX || c->copy->firsttraceable > units + 1) {
		wrong(c, "a code object has %llu instructions, the first traced one is %u",
		      (unsigned long long)units, c->copy->firsttraceable);
		return false;
	}
	pycode_instr(c->m, l, code, (uint32_t)units * 2, tlbc, &instr);
	/* 3.11, 3.12: prev_instr is one before the first at the start. */
	if (instr - bytecode + 2 > units * 2 + 2) {
		wrong(c, "an instruction pointer is outside its code object");
		return false;
	}
	return true;
}

/* Is it a text as CPython keeps one, @kind bytes a character? Larger characters are kept only
 * where one of them needs the room (PEP 393). Hardly any name and no file that was opened holds
 * a NUL, but a text that is read further than it goes does. */
static enum verdict judge_text(const unsigned char *text, size_t n, size_t kind, bool cut)
{
	bool needed = kind == 1 || cut, nul = false;

	if (kind != 1 && kind != 2 && kind != 4)
		return WRONG;
	for (size_t i = 0; i + kind <= n; i += kind) {
		uint32_t unit = 0;

		memcpy(&unit, text + i, kind);
		if (unit > 0x10ffff)
			return WRONG;
		nul |= unit == 0;
		needed |= unit >> (4 * kind) != 0;
	}
	if (!needed || (nul && cut))
		return WRONG;
	return nul ? NOTHING : RIGHT;
}

/* Source that came from no file may have an empty file; a name is empty only by hand. */
static enum verdict judge_texts(const struct pycode_copy *copy)
{
	enum verdict name = judge_text(copy->data, copy->name_n, copy->name_kind,
				       copy->cut & PYCODE_NAME_CUT);
	enum verdict file = judge_text(copy->data + copy->name_n, copy->file_n,
				       copy->file_kind, copy->cut & PYCODE_FILE_CUT);

	return MIN(MIN(name, file), copy->name_n ? RIGHT : NOTHING);
}

static enum verdict judge_code(struct check *c, raddr code, raddr instr, int32_t tlbc)
{
	const struct pylayout *l = &c->p->layout;
	unsigned char head[PYCODE_HEAD_MAX];
	enum verdict texts;
	int r = rmem_read(c->m, code, head, l->code.size);

	if (r == 0)
		r = pycode_copy(c->m, l, code, head, c->copy);
	if (r == -EBADMSG) {
		wrong(c, "a frame's code is of another type than \"code\"");
		return WRONG;
	}
	if (r < 0) {
		wrong(c, "a frame's code object cannot be read");
		return WRONG;
	}
	texts = judge_texts(c->copy);
	if (texts != RIGHT)
		wrong(c, "a code object's name or file is no text");
	return code_numbers(c, head, code, instr, tlbc) ? texts : WRONG;
}

/* As struct pyframe has it. */
static raddr instr_of(const struct pylayout *l, const unsigned char *frame)
{
	int32_t lasti;

	if (!l->lasti_unit)
		return frame_u64(frame, l->frame.instr);
	memcpy(&lasti, frame + pyoff_get(l->frame.instr), sizeof(lasti));
	return frame_u64(frame, l->frame.code) +
	       (uint64_t)(lasti < 0 ? -2 : (int64_t)lasti * l->lasti_unit);
}

/* True: byte @at holds one of 0 to @max. */
static bool small(const unsigned char *frame, pyoff at, unsigned max)
{
	return !pyoff_has(at) || frame[pyoff_get(at)] <= max;
}

static enum verdict judge_frame(struct check *c, raddr frame, const unsigned char *buf,
				bool innermost)
{
	const struct pylayout *l = &c->p->layout;
	raddr code = frame_u64(buf, l->frame.code) & ~(raddr)l->code_tag_mask;
	struct err err = { 0 };
	enum verdict ret;
	int32_t tlbc = 0;

	if (pyoff_has(l->frame.tlbc_index))
		memcpy(&tlbc, buf + pyoff_get(l->frame.tlbc_index), sizeof(tlbc));
	ret = judge_code(c, code, instr_of(l, buf), tlbc);
	if (ret == WRONG)
		return WRONG;
	if (!small(buf, l->frame.owner, OWNER_MAX) || !small(buf, l->frame.is_entry, 1)) {
		wrong(c, "a frame has an owner that there is not");
		return WRONG;
	}
	if (innermost && pyfind_types(c->m, l, code, frame, &err) < 0) {
		wrong(c, "%.200s", err.text);
		return WRONG;
	}
	return ret;
}

/* Below a function that was compiled to C there may be nothing. */
static bool is_compiled(struct check *c, raddr frame, const unsigned char *buf)
{
	const struct pylayout *l = &c->p->layout;
	const struct pyframe f = { .frame = frame | (buf[pyoff_get(l->frame.owner)] ==
								     l->owner_generator ?
							     PYFRAME_GENERATOR :
							     0) };
	struct pycompiled none = { 0 };

	return pycompiled_is(c->m, l, &f, true, 0, &none);
}

/* The innermost frames that run code. From 3.12 on the outermost one is a shim, in 3.11 it
 * says that it is an entry. */
static bool check_frames(struct check *c, raddr frame)
{
	const struct pylayout *l = &c->p->layout;
	unsigned char buf[PYLAYOUT_FRAME_MAX];
	enum verdict is = NOTHING;
	raddr last = 0;
	bool outermost = true;
	int good = 0;

	for (int i = 0; frame && i < MAX_FRAMES; i++) {
		if (rmem_read(c->m, frame, buf, l->frame.size) < 0) {
			wrong(c, "a frame cannot be read");
			return false;
		}
		outermost = l->owner_shim ? buf[pyoff_get(l->frame.owner)] >= l->owner_shim :
					    !pyoff_has(l->frame.is_entry) ||
						    buf[pyoff_get(l->frame.is_entry)];
		if (!(l->owner_shim && outermost) && good < FRAMES_PROVEN) {
			is = judge_frame(c, frame, buf, good == 0);
			if (is == WRONG)
				return false;
			good += is == RIGHT;
		}
		last = frame;
		frame = frame_u64(buf, l->frame.previous);
	}
	if (!frame && !outermost && !is_compiled(c, last, buf)) {
		wrong(c, "a thread's frames end too early");
		return false;
	}
	c->idle += !frame && !good;
	return good > 0;
}

/* True: the thread state @ts, which runs code, says which thread that is. */
static bool check_ids(struct check *c, raddr ts, uint64_t native)
{
	const struct pylayout *l = &c->p->layout;
	uint64_t pthread = 1, number = native;

	if (pyoff_has(l->tstate.thread_id) &&
	    (rmem_read_u64(c->m, ts + pyoff_get(l->tstate.thread_id), &pthread) < 0 ||
	     !pthread))
		number = 0;
	else if (l->lasti_unit &&
		 pyframe_pthread_number(c->m, arch_host->pthread_tid, pthread, &number) < 0)
		number = 0;
	if (number == 0 || number > PID_MAX)
		wrong(c, "a thread state has no thread");
	return number != 0 && number <= PID_MAX;
}

/* Does the list lead back? @last: the state before @ts, 0 for the first one. */
static bool check_prev(struct check *c, raddr ts, raddr last)
{
	pyoff prev = c->p->layout.tstate.prev;
	raddr back;

	if (!pyoff_has(prev) ||
	    (rmem_read_u64(c->m, ts + pyoff_get(prev), &back) == 0 && back == last))
		return true;
	wrong(c, "the list of thread states does not lead back");
	return false;
}

/* struct _PyStackChunk { previous, size, top }: is the thread's newest one whole pages? */
static bool check_chunk(struct check *c, raddr ts)
{
	pyoff at = c->p->layout.tstate.datastack_chunk;
	uint64_t chunk, size;

	if (!pyoff_has(at))
		return true;
	if (rmem_read_u64(c->m, ts + pyoff_get(at), &chunk) == 0 &&
	    (!chunk ||
	     (rmem_read_u64(c->m, chunk + 8, &size) == 0 && size && size % CHUNK_UNIT == 0)))
		return true;
	wrong(c, "a thread's frames lie in no chunk");
	return false;
}

/* Generators that run are a list from exc_info on, to what lies in the thread state. */
static bool check_exc_info(struct check *c, raddr ts)
{
	const struct pylayout *l = &c->p->layout;
	uint64_t item;

	if (!pyoff_has(l->tstate.exc_info) || !pyoff_has(l->gen.exc_state))
		return true;
	if (rmem_read_u64(c->m, ts + pyoff_get(l->tstate.exc_info), &item) == 0)
		for (int i = 0; item; i++) {
			if ((item > ts && item - ts < l->tstate.size) || i == MAX_GENERATORS)
				return true;
			if (rmem_read_u64(c->m,
					  item + pyoff_get(l->gen.exc_previous) -
						  pyoff_get(l->gen.exc_state),
					  &item) < 0)
				break;
		}
	wrong(c, "a thread's generators do not lead to its state");
	return false;
}

/* 3.12, 3.13: is a state that has frames initialized, bound and not unbound? */
static bool check_status(struct check *c, raddr ts)
{
	const struct pylayout *l = &c->p->layout;
	uint32_t status;

	if (!l->active_bit || l->version >= 0x030e)
		return true;
	if (rmem_read(c->m, ts + pyoff_get(l->tstate.status), &status, sizeof(status)) == 0 &&
	    (status & 7) == 3)
		return true;
	wrong(c, "a thread state that runs was not initialized");
	return false;
}

static bool check_state(struct check *c, raddr ts, raddr last)
{
	return check_prev(c, ts, last) && check_chunk(c, ts) && check_exc_info(c, ts);
}

/* How many thread states there ever were: some, and no address. */
static bool check_unique(struct check *c, raddr interp)
{
	pyoff at = c->p->layout.interp.threads_unique;
	uint64_t unique;

	if (!pyoff_has(at) || (rmem_read_u64(c->m, interp + pyoff_get(at), &unique) == 0 &&
			       unique && unique < UNIQUE_MAX))
		return true;
	wrong(c, "an interpreter has no count of its threads");
	return false;
}

/* Returns the next thread, 0 at the end of the list or where it breaks. */
static raddr check_thread(struct check *c, raddr interp, raddr ts, raddr last)
{
	const struct pylayout *l = &c->p->layout;
	bool by_cframe = pyoff_has(l->tstate.cframe);
	uint64_t owner, next, tid = 0, frame;
	const struct rmem_vec v[] = {
		{ ts + pyoff_get(l->tstate.interp), &owner, 8 },
		{ ts + pyoff_get(l->tstate.next), &next, 8 },
		{ ts + pyoff_get(by_cframe ? l->tstate.cframe : l->tstate.frame), &frame, 8 },
		{ ts + (l->lasti_unit ? 0 : pyoff_get(l->tstate.native_tid)), &tid, 8 },
	};
	size_t n = ARRAY_SIZE(v) - (l->lasti_unit != 0);

	if (rmem_readv(c->m, v, n) != n) {
		wrong(c, "a thread state cannot be read");
		return 0;
	}
	if (owner != interp || tid > PID_MAX) {
		wrong(c, "a thread state does not belong to its interpreter");
		return 0;
	}
	if (by_cframe &&
	    rmem_read_u64(c->m, frame + pyoff_get(l->cframe.current_frame), &frame) < 0) {
		wrong(c, "a C frame cannot be read");
		return next;
	}
	if (check_state(c, ts, last) && check_frames(c, frame) && check_ids(c, ts, tid) &&
	    check_status(c, ts))
		c->proven++;
	return next;
}

/* -EAGAIN where there is no thread at all. */
static int check_interps(struct check *c, raddr interp)
{
	const struct pylayout *l = &c->p->layout;
	raddr ts, next, last, following;
	bool any = false;

	for (int i = 0; interp && i < PYWALK_MAX_INTERPS && !c->proven; i++, interp = next) {
		const struct rmem_vec v[] = {
			{ interp + pyoff_get(l->interp.threads_head), &ts, 8 },
			{ interp + pyoff_get(l->interp.next), &next, 8 },
		};

		if (rmem_readv(c->m, v, ARRAY_SIZE(v)) != ARRAY_SIZE(v)) {
			wrong(c, "an interpreter state cannot be read");
			return -EBADMSG;
		}
		any |= ts != 0;
		if (ts && !check_unique(c, interp))
			return -EBADMSG;
		last = 0;
		for (int j = 0; ts && j < MAX_THREADS && !c->proven; j++) {
			following = check_thread(c, interp, ts, last);
			last = ts;
			ts = following;
		}
	}
	return any ? 0 : -EAGAIN;
}

/* One look: 0 good, -EAGAIN no thread yet, -EBADMSG c->wrong tells. */
static int check_once(struct check *c)
{
	const struct pylayout *l = &c->p->layout;
	uint64_t interp, finalizing = 0;
	int r;

	c->idle = 0;
	c->wrong[0] = '\0';
	r = rmem_read_u64(c->m, c->p->runtime + pyoff_get(l->runtime.interp_head), &interp);
	if (r == 0 && pyoff_has(l->runtime.finalizing))
		r = rmem_read_u64(c->m, c->p->runtime + pyoff_get(l->runtime.finalizing),
				  &finalizing);
	if (r < 0) {
		wrong(c, "_PyRuntime cannot be read");
		return r == -ESRCH || r == -EPERM ? r : -EBADMSG;
	}
	if (!interp || finalizing)
		return -EAGAIN;
	r = check_interps(c, interp);
	if (r < 0 || c->proven)
		return r;
	return c->idle && !c->wrong[0] ? 0 : -EBADMSG;
}

int pyfind_selfcheck_by(const struct pyproc *p, struct rmem *m, int looks, struct err *err)
{
	const struct timespec pause = { .tv_nsec = ATTEMPT_NS };
	_cleanup_free_ struct pycode_copy *copy = malloc(PYCODE_COPY_MAX);
	_cleanup_free_ unsigned char (*page)[RMEM_PAGE] = malloc(LOOK_PAGES * sizeof(*page));
	struct rmem_pages pages;
	struct check c = { .p = p, .m = &pages.base, .copy = copy };
	int r = -EBADMSG;

	rmem_pages_init(&pages, m, page, LOOK_PAGES);
	if (!copy || !page)
		return err_set(err, -ENOMEM, "out of memory");
	if (pylayout_check(&p->layout, err) < 0)
		return -EBADMSG;
	for (int i = 0; i < looks && r == -EBADMSG; i++) {
		if (i % ATTEMPTS_AT_ONCE == ATTEMPTS_AT_ONCE - 1)
			nanosleep(&pause, NULL);
		rmem_pages_forget(&pages);
		r = check_once(&c);
	}
	if (r == -EAGAIN)
		return err_set(err, r, "its Python is starting or ending: no thread yet");
	if (r < 0)
		return err_set(err, r, "%s", c.wrong[0] ? c.wrong : "nothing could be proven");
	return 0;
}

int pyfind_selfcheck(const struct pyproc *p, struct rmem *m, struct err *err)
{
	return pyfind_selfcheck_by(p, m, ATTEMPTS, err);
}
