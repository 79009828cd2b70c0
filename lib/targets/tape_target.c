/* SPDX-License-Identifier: MIT
 *
 * tape_target - targets as fields; a layout is a text, a line a field, that has no offset
 * where the interpreter has no such field: "frame.prev=8", "frame.func=-".
 */
#include "targets/tape_target.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "sample/wire.h"

/* What a stack is read by: clang-format would break names in two, which are text here. */
/* clang-format off */
#define LAYOUT_FIELDS \
	X(version) X(micro_min) X(micro_max) X(runtime.interp_head) X(runtime.main_thread) \
	X(runtime.finalizing) X(interp.size) X(interp.next) X(interp.id) \
	X(interp.threads_head) X(interp.threads_unique) X(interp.code_versions) \
	X(interp.code_versions_global) X(tstate.size) X(tstate.next) X(tstate.prev) \
	X(tstate.interp) X(tstate.thread_id) X(tstate.native_tid) X(tstate.frame) \
	X(tstate.cframe) X(tstate.datastack_chunk) X(tstate.status) X(tstate.exc_info) \
	X(tstate.base_frame) X(cframe.current_frame) X(cframe.previous) X(frame.size) \
	X(frame.code) X(frame.previous) X(frame.instr) X(frame.localsplus) X(frame.owner) \
	X(frame.is_entry) X(frame.func) X(frame.object) X(frame.stacktop) \
	X(frame.tlbc_index) X(gen.exc_state) X(gen.exc_previous) X(gen.frame) X(func.code) \
	X(func.version) X(code.size) X(code.filename) X(code.name) X(code.qualname) \
	X(code.linetable) X(code.firstlineno) X(code.flags) X(code.version) \
	X(code.firsttraceable) X(code.bytecode) X(code.instructions) X(code.tlbc) \
	X(code.stacksize) X(code.nlocalsplus) X(object.type) X(object.type_name) \
	X(object.type_flags) X(str.length) X(str.state) X(str.hash) X(str.ascii_data) \
	X(str.compact_data) X(bytes.size) X(bytes.data) X(owner_shim) X(owner_generator) \
	X(code_tag_mask) X(active_bit) X(str_kind_shift) X(str_compact_bit) \
	X(str_ascii_bit) X(lasti_unit) X(free_threaded) X(linetable)
/* clang-format on */

static const struct layout_field {
	const char *name;
	uint16_t at;
	uint8_t size;
	bool offset; /* a pyoff */
} layout_fields[] = {
#define IS_OFFSET(x) _Generic((x), pyoff : true, default : false)
#define X(member)                                               \
	{ #member, (uint16_t)offsetof(struct pylayout, member), \
	  (uint8_t)sizeof(((struct pylayout *)0)->member),      \
	  IS_OFFSET(((struct pylayout *)0)->member) },
	LAYOUT_FIELDS
#undef X
};

static const char *const state_names[] = {
	[TARGET_PENDING] = "pending", [TARGET_STARTING] = "starting",
	[TARGET_PYTHON] = "python",   [TARGET_NOPYTHON] = "nopython",
	[TARGET_REFUSED] = "refused", [TARGET_QUARANTINED] = "quarantined",
};

/* --- layouts --- */

/* Little-endian: a field's first bytes are its lowest. */
static void put_layout(struct tape_head *h, const struct pylayout *l)
{
	char text[sizeof(h->bytes)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(layout_fields) && n < sizeof(text); i++) {
		const struct layout_field *f = &layout_fields[i];
		uint32_t v = 0;

		memcpy(&v, (const char *)l + f->at, f->size);
		if (f->offset && !v)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s=-\n", f->name);
		else
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s=%u\n", f->name,
					      v - f->offset);
	}
	tape_put_bytes(h, TAPE_LAYOUT, text, MIN(n, sizeof(text)));
}

/* Names of older tapes may have blanks in them: "code .name". */
static size_t squeeze(char *name, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (name[i] != ' ')
			name[k++] = name[i];
	return k;
}

static void set_field(struct pylayout *l, const char *name, size_t n, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(layout_fields); i++) {
		const struct layout_field *f = &layout_fields[i];
		uint32_t v = (uint32_t)strtoul(value, NULL, 10);

		if (strlen(f->name) != n || strncmp(f->name, name, n) != 0)
			continue;
		if (f->offset)
			v = *value == '-' ? 0 : v + 1;
		memcpy((char *)l + f->at, &v, f->size);
	}
}

/* What the text does not name is as in the table of that version, which comes first. */
static void get_layout(struct bytes chunk, struct pylayout *ret)
{
	char text[sizeof(((struct tape_head *)0)->bytes)], *line, *rest = text;
	const struct pylayout *known =
		pylayout_find((uint16_t)(tape_get(chunk, TAPE_VERSION, 0) >> 16));

	*ret = known ? *known : (struct pylayout){ 0 };
	tape_get_text(chunk, TAPE_LAYOUT, text, sizeof(text));
	while ((line = strsep(&rest, "\n"))) {
		const char *is = strchr(line, '=');

		if (is)
			set_field(ret, line, squeeze(line, (size_t)(is - line)), is + 1);
	}
}

/* --- targets --- */

static void put_code(struct tape_head *h, const struct pyfind_code *c)
{
	tape_put(h, TAPE_FILE_MAJ, c->maj);
	tape_put(h, TAPE_FILE_MIN, c->min);
	tape_put(h, TAPE_FILE_INO, c->ino);
	tape_put(h, TAPE_FILE_PGOFF, c->pgoff);
	tape_put(h, TAPE_FILE_AT, c->at);
	tape_put(h, TAPE_BUILD_ID_AT, c->build_id_at);
	tape_put_bytes(h, TAPE_BUILD_ID, c->build_id, c->build_id_n);
}

void tape_put_no_target(struct tape_head *h, pid_t pid, uint64_t time)
{
	tape_put(h, TAPE_TIME, time);
	tape_put(h, TAPE_PID, (uint64_t)pid);
	tape_put(h, TAPE_IS, TAPE_GONE);
}

void tape_put_target(struct tape_head *h, const struct target *t, bool code, uint64_t time)
{
	int now = atomic_load_explicit(&t->state, memory_order_acquire);
	const char *state = state_names[now];
	bool learnt = target_state_learnt(now);

	tape_put(h, TAPE_TIME, time);
	tape_put(h, TAPE_PID, (uint64_t)t->pid);
	tape_put(h, TAPE_PROGRAM, (uint64_t)t->py.program);
	tape_put_bytes(h, TAPE_STATE, state, strlen(state));
	tape_put(h, TAPE_BEGUN, t->begun_ns);
	tape_put(h, TAPE_NONE, atomic_load(&t->none_ns));
	tape_put(h, TAPE_IS,
		 (atomic_load(&t->unborn) ? TAPE_UNBORN : 0u) | (t->plain ? TAPE_PLAIN : 0u) |
			 (atomic_load(&t->nopython) ? TAPE_NOPYTHON : 0u) |
			 (learnt && t->inner_tids ? TAPE_INNER : 0u) |
			 (learnt && t->py.no_jit ? TAPE_NO_JIT : 0u));
	tape_put(h, TAPE_FORKER, (uint64_t)atomic_load(&t->forker));
	tape_put(h, TAPE_CODE_NUMBER, atomic_load(&t->code_number));
	tape_put(h, TAPE_CODE_AT, t->code_at);
	tape_put(h, TAPE_LOOKED, atomic_load(&t->looked_ns));
	if (!learnt || !t->runtime)
		return;
	tape_put(h, TAPE_VERSION, t->version);
	tape_put(h, TAPE_RUNTIME, t->runtime);
	tape_put(h, TAPE_CODE_VERSIONS, t->py.code_versions);
	tape_put(h, TAPE_ROOT, t->py.root);
	put_layout(h, &t->py.layout);
	if (code && t->code.build_id_n)
		put_code(h, &t->code);
}

static int get_state(struct bytes chunk)
{
	char text[16];

	tape_get_text(chunk, TAPE_STATE, text, sizeof(text));
	for (size_t i = 0; i < ARRAY_SIZE(state_names); i++)
		if (!strcmp(state_names[i], text))
			return (int)i;
	return TARGET_PENDING;
}

static void get_code(struct bytes chunk, struct pyfind_code *c)
{
	struct bytes id;

	if (!tape_field(chunk, TAPE_BUILD_ID, &id))
		return;
	*c = (struct pyfind_code){
		.maj = (uint32_t)tape_get(chunk, TAPE_FILE_MAJ, 0),
		.min = (uint32_t)tape_get(chunk, TAPE_FILE_MIN, 0),
		.ino = tape_get(chunk, TAPE_FILE_INO, 0),
		.pgoff = tape_get(chunk, TAPE_FILE_PGOFF, 0),
		.at = tape_get(chunk, TAPE_FILE_AT, 0),
		.build_id_at = tape_get(chunk, TAPE_BUILD_ID_AT, 0),
		.build_id_n = (uint32_t)MIN(id.n, sizeof(c->build_id)),
	};
	memcpy(c->build_id, id.at, c->build_id_n);
}

static int get_interpreter(struct bytes chunk, struct target *t)
{
	t->version = (uint32_t)tape_get(chunk, TAPE_VERSION, 0);
	t->runtime = tape_get(chunk, TAPE_RUNTIME, 0);
	t->py.code_versions = tape_get(chunk, TAPE_CODE_VERSIONS, 0);
	t->py.root = tape_get(chunk, TAPE_ROOT, 0);
	get_code(chunk, &t->code);
	get_layout(chunk, &t->py.layout);
	if (pylayout_check(&t->py.layout, NULL) < 0)
		return -EBADMSG;
	pywalk_layout_init(&t->py.walk, &t->py.layout, t->runtime);
	return 0;
}

int tape_get_target(struct bytes chunk, struct target *t)
{
	uint64_t is = tape_get(chunk, TAPE_IS, 0);
	int state = get_state(chunk), code = 0;

	t->pid = t->py.pid = (pid_t)tape_get(chunk, TAPE_PID, 0);
	t->py.program = (int)tape_get(chunk, TAPE_PROGRAM, 0);
	t->begun_ns = tape_get(chunk, TAPE_BEGUN, 0);
	t->plain = is & TAPE_PLAIN;
	t->inner_tids = is & TAPE_INNER;
	t->py.no_jit = is & TAPE_NO_JIT;
	atomic_store(&t->none_ns, tape_get(chunk, TAPE_NONE, 0));
	atomic_store(&t->unborn, is & TAPE_UNBORN);
	atomic_store(&t->nopython, is & TAPE_NOPYTHON);
	atomic_store(&t->forker, (pid_t)tape_get(chunk, TAPE_FORKER, 0));
	t->code_at = tape_get(chunk, TAPE_CODE_AT, 0);
	atomic_store(&t->looked_ns, tape_get(chunk, TAPE_LOOKED, UINT64_MAX));
	atomic_store(&t->code_number, (uint32_t)tape_get(chunk, TAPE_CODE_NUMBER, 0));
	if (tape_get(chunk, TAPE_RUNTIME, 0))
		code = get_interpreter(chunk, t);
	else if (state == TARGET_PYTHON || state == TARGET_STARTING)
		code = -EBADMSG;
	atomic_store(&t->state, code < 0 ? TARGET_REFUSED : state);
	return code;
}

void tape_queue(struct queue *q, struct stats *stats, enum tape_type type,
		const struct tape_head *h, struct bytes body)
{
	uint32_t tag[2] = { type, (uint32_t)h->n };
	unsigned char *p =
		h->full ? NULL : queue_reserve(q, Q_TAPE, sizeof(tag) + h->n + body.n);

	if (!p) {
		STATS_ADD(stats, side_lost, 1);
		return;
	}
	memcpy(p, tag, sizeof(tag));
	memcpy(p + sizeof(tag), h->bytes, h->n);
	if (body.n)
		memcpy(p + sizeof(tag) + h->n, body.at, body.n);
	queue_commit(q);
}

void tape_queue_target(const struct target *t, struct queue *q, struct stats *stats)
{
	struct tape_head h = { 0 };

	tape_put_target(&h, t, true, now_ns());
	tape_queue(q, stats, TAPE_TARGET, &h, (struct bytes){ 0 });
}
