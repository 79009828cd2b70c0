/* SPDX-License-Identifier: MIT
 *
 * program: what a process is by now, by records of forks, execs and maps, by what the control
 * thread knows and by what lies in its memory: which interpreter is read, and where.
 */
#include <stdio.h>

#include "unit.h"
#include "fake_program.h"

/* --- a new program --- */

/* PID has become another program that mapped the interpreter, MOVED further, where it is. */
static void begin_anew(struct fix *f)
{
	put_memory(f, PID, ID_AT + MOVED, ID, ID_BYTES);
	note_exec(f, PID, 100);
	note_map(f, PID, CODE_AT + MOVED, 110);
}

static void newborn(void **state)
{
	struct fix *f = *state;
	const struct target *n;
	int program;

	begin_anew(f);
	n = expect_known(f, PID, MOVED);
	assert_int_equal(n->begun_ns, 100);
	assert_int_equal(n->code.at, CODE_AT + MOVED);
	expect_control(f, CTL_LOOK, PID, 1234);
	/* The next sample: it is the same, and nothing is asked again. */
	program = n->py.program;
	assert_ptr_equal(expect_known(f, PID, MOVED), n);
	assert_int_equal(n->py.program, program);
	expect_control(f, 0, 0, 0);
}

/* The control thread has not heard of it yet. */
static void newborn_that_nobody_knows(void **state)
{
	struct fix *f = *state;

	note_fork(f, 91, PARENT, THREAD, 50);
	put_memory(f, 91, ID_AT + MOVED, ID, ID_BYTES);
	note_map(f, 91, CODE_AT + MOVED, 110);
	expect_asked(f, 91);
	note_exec(f, 91, 100);
	assert_int_equal(expect_known(f, 91, MOVED)->begun_ns, 100);
	expect_control(f, CTL_UNKNOWN, 91, 0);
}

/* It is another one each time, also where all lies as before. */
static void newborn_again(void **state)
{
	struct fix *f = *state;
	const struct target *n;
	int program;

	begin_anew(f);
	n = expect_known(f, PID, MOVED);
	program = n->py.program;
	note_exec(f, PID, 200);
	note_map(f, PID, CODE_AT + MOVED, 210);
	n = expect_known(f, PID, MOVED);
	assert_int_equal(n->begun_ns, 200);
	assert_int_not_equal(n->py.program, program);
	/* It has moved, for it was mapped once more. */
	put_memory(f, PID, ID_AT + 2 * MOVED, ID, ID_BYTES);
	note_map(f, PID, CODE_AT + 2 * MOVED, 220);
	program = n->py.program;
	n = expect_known(f, PID, 2 * MOVED);
	assert_int_not_equal(n->py.program, program);
	/* As it is after an exec nobody knows before it maps something. */
	note_exec(f, PID, 300);
	expect_asked(f, PID);
}

/* Two processes that share a place. */
static void newborns_in_one_place(void **state)
{
	struct fix *f = *state;

	begin_anew(f);
	publish(f, PID + NEWBORNS, TARGET_PENDING);
	put_memory(f, PID + NEWBORNS, ID_AT + MOVED, ID, ID_BYTES);
	note_exec(f, PID + NEWBORNS, 100);
	note_map(f, PID + NEWBORNS, CODE_AT + MOVED, 110);
	for (int i = 0; i < 2; i++) {
		expect_known(f, PID, MOVED);
		expect_known(f, PID + NEWBORNS, MOVED);
	}
}

/* What lies there is another file's, or nothing, or it is there in another process. */
static void newborn_must_be_there(void **state)
{
	struct fix *f = *state;

	begin_anew(f);
	f->memory[0].bytes[ID_BYTES - 1] ^= 1;
	expect_asked(f, PID);
	f->n_memory = 0;
	expect_asked(f, PID);
	put_memory(f, PID + 1, ID_AT + MOVED, ID, ID_BYTES);
	expect_asked(f, PID);
	put_memory(f, PID, ID_AT, ID, ID_BYTES);
	put_memory(f, PID, ID_AT - MOVED, ID, ID_BYTES);
	expect_asked(f, PID);
}

/* Who knows the interpreter may have written over what it maps of the file, so that it seems to be
 * another one: once two processes tell different things nobody is believed. */
static void newborn_of_which_two_differ(void **state)
{
	struct fix *f = *state;

	begin_anew(f);
	births_teach(f->c.births, &f->code, f->known);
	expect_known(f, PID, MOVED);
	f->r->newborn[PID % NEWBORNS].pid = 0;
	f->known->py.layout = *pylayout_find(0x030b);
	births_teach(f->c.births, &f->code, f->known);
	expect_asked(f, PID);
	f->known->py.layout = *pylayout_find(0x030c);
	births_teach(f->c.births, &f->code, f->known);
	expect_asked(f, PID);
}

/* It was mapped before it became another program; or it did not become one. */
static void maps_of_before(void **state)
{
	struct fix *f = *state;

	put_memory(f, PID, ID_AT + MOVED, ID, ID_BYTES);
	note_map(f, PID, CODE_AT + MOVED, 110);
	expect_asked(f, PID);
	note_exec(f, PID, 120);
	expect_asked(f, PID);
}

/* The interpreter has no count of codes that is a global variable: none is made up. */
static void without_code_versions(void **state)
{
	struct fix *f = *state;

	births_destroy(f->c.births);
	f->c.births = births_create();
	f->known->py.code_versions = 0;
	births_teach(f->c.births, &f->code, f->known);
	begin_anew(f);
	assert_int_equal(able(f, PID), PYSTACK_OK);
	assert_int_equal(f->w.program->py.code_versions, 0);
}

/* In which state its target may be for that. */
static void states_before(void **state)
{
	struct fix *f = *state;

	begin_anew(f);
	f->t->begun_ns = 100; /* the control thread knows of the exec */
	f->t->state = TARGET_STARTING;
	expect_known(f, PID, MOVED);
	f->t->state = TARGET_NOPYTHON;
	f->t->none_ns = 110; /* before it was mapped */
	expect_known(f, PID, MOVED);
	f->t->none_ns = 111;
	assert_int_equal(able(f, PID), PYSTACK_NOPYTHON);
	assert_ptr_equal(f->w.program, f->t);
	f->t->none_ns = 0;
	f->t->state = TARGET_PYTHON;
	assert_int_equal(able(f, PID), PYSTACK_OK);
	assert_ptr_equal(f->w.program, f->t);
	f->t->state = TARGET_REFUSED;
	assert_int_equal(able(f, PID), PYSTACK_END_N);
	assert_false(f->w.undecided);
	assert_int_equal(STATS_GET(&f->stats, torn_notready), 1);
	/* What it was before its exec is no matter. */
	f->t->begun_ns = 99;
	f->t->state = TARGET_PYTHON;
	expect_known(f, PID, MOVED);
	f->t->state = TARGET_REFUSED;
	expect_known(f, PID, MOVED);
	note_exec(f, PID, 200); /* and what it is now nobody knows */
	expect_asked(f, PID);
	f->t->state = TARGET_PYTHON;
	expect_asked(f, PID);
	f->t->state = TARGET_NOPYTHON;
	expect_asked(f, PID);
}

/* That its threads have numbers of their own is known if what was learnt of the program before stands there. */
static void numbers_of_threads(void **state)
{
	struct fix *f = *state;
	const struct target *n;

	begin_anew(f);
	f->t->inner_tids = true;
	f->t->inner = 7;
	n = expect_known(f, PID, MOVED);
	assert_false(n->inner_tids);
	note_exec(f, PID, 200);
	note_map(f, PID, CODE_AT + MOVED, 210);
	f->t->state = TARGET_PYTHON;
	n = expect_known(f, PID, MOVED);
	assert_true(n->inner_tids);
	assert_int_equal(n->inner, 7);
	f->t->inner_tids = false;
	note_exec(f, PID, 300);
	note_map(f, PID, CODE_AT + MOVED, 310);
	assert_false(expect_known(f, PID, MOVED)->inner_tids);
}

/* --- what began before the recording --- */

static void sleeper(void **state)
{
	struct fix *f = *state;
	const struct target *n;
	int program;

	put_memory(f, PID, ID_AT + MOVED, ID, ID_BYTES);
	f->t->code_at = CODE_AT + MOVED;
	f->t->code_number = 1;
	expect_asked(f, PID); /* it may be a process that nobody knows anything of */
	f->t->plain = true;
	f->t->asked = false;
	n = expect_known(f, PID, MOVED);
	expect_control(f, CTL_LOOK, PID, 1234);
	assert_int_equal(n->version, f->known->version);
	assert_int_equal(n->runtime, RUNTIME + MOVED);
	assert_int_equal(n->begun_ns, 0);
	assert_true(n->unborn);
	program = n->py.program;
	assert_ptr_equal(expect_known(f, PID, MOVED), n);
	assert_int_equal(n->py.program, program);
	/* Its number is another process's by now, which began later. */
	f->t->begun_ns = 50;
	n = expect_known(f, PID, MOVED);
	assert_int_equal(n->begun_ns, 50);
	assert_int_not_equal(n->py.program, program);
	/* Another program by now. */
	note_exec(f, PID, 100);
	expect_asked(f, PID);
}

/* One that others forked before lies where theirs does, whatever the scout saw. */
static void sleeper_in_place(void **state)
{
	struct fix *f = *state;

	f->t->plain = true;
	expect_asked(f, PID);
	put_memory(f, PID, ID_AT, ID, ID_BYTES);
	assert_int_equal(expect_known(f, PID, 0)->runtime, RUNTIME);
	f->r->newborn[PID % NEWBORNS].pid = 0;
	f->t->code_number = 1;
	f->t->code_at = CODE_AT + MOVED; /* but there it is not any more */
	assert_int_equal(expect_known(f, PID, 0)->runtime, RUNTIME);
}

/* The first that is known is not there, the second is; who lives in a namespace of its own
 * is not like others. */
static void sleeper_of_several(void **state)
{
	struct fix *f = *state;

	f->t->plain = true;
	f->code.build_id[0] ^= 1;
	f->code.build_id_at += 64;
	f->known->runtime += 4096;
	births_teach(f->c.births, &f->code, f->known);
	put_memory(f, PID, ID_AT + 64, f->code.build_id, ID_BYTES);
	assert_int_equal(able(f, PID), PYSTACK_OK);
	assert_int_equal(f->w.program->runtime, RUNTIME + 4096);
	f->r->newborn[PID % NEWBORNS].pid = 0;
	f->code.build_id[0] ^= 2;
	f->code.build_id_at += 64;
	f->known->inner_tids = true;
	births_teach(f->c.births, &f->code, f->known);
	f->n_memory = 0;
	put_memory(f, PID, ID_AT + 128, f->code.build_id, ID_BYTES);
	expect_asked(f, PID);
}

/* Only one that nobody has looked at yet, at its beginning or later. */
static void sleeper_seen(void **state)
{
	struct fix *f = *state;

	f->t->plain = true;
	put_memory(f, PID, ID_AT, ID, ID_BYTES);
	f->t->state = TARGET_NOPYTHON;
	expect_asked(f, PID);
	f->t->state = TARGET_STARTING;
	expect_asked(f, PID);
	f->t->state = TARGET_PENDING;
	expect_known(f, PID, 0);
}

/* --- children --- */

static struct target *parent(struct fix *f)
{
	struct target *t = publish(f, PARENT, TARGET_PYTHON);

	t->py = f->known->py;
	t->py.pid = PARENT;
	t->version = f->known->version;
	t->runtime = RUNTIME;
	t->code = f->code;
	return t;
}

/* The child @pid, of which the control thread has not heard, is a copy of its parent. */
static const struct target *expect_copy(struct fix *f, pid_t pid, pid_t forker, uint64_t time)
{
	const struct target *n;

	assert_int_equal(able(f, pid), PYSTACK_OK);
	n = f->w.program;
	assert_null(f->w.published);
	assert_int_equal(n->pid, pid);
	assert_int_equal(n->state, TARGET_PYTHON);
	assert_int_equal(n->begun_ns, time);
	assert_int_equal(n->forker, forker);
	assert_int_equal(n->py.pid, pid);
	assert_true(n->py.program < 0);
	assert_int_equal(n->py.root, f->known->py.root);
	assert_int_equal(n->py.walk.interp_head, f->known->py.walk.interp_head);
	assert_int_equal(n->version, f->known->version);
	assert_int_equal(n->runtime, RUNTIME);
	assert_int_equal(n->code.build_id_at, ID_AT);
	expect_control(f, 0, 0, 0);
	return n;
}

static void forked(void **state)
{
	struct fix *f = *state;
	const struct target *n;
	int program;

	parent(f);
	expect_asked(f, 90);
	note_fork(f, 90, PARENT, THREAD, 50);
	n = expect_copy(f, 90, THREAD, 50);
	program = n->py.program;
	assert_ptr_equal(expect_copy(f, 90, THREAD, 50), n);
	assert_int_equal(n->py.program, program);
	/* Its number is another child's. */
	note_fork(f, 90, PARENT, PARENT, 60);
	n = expect_copy(f, 90, PARENT, 60);
	assert_int_not_equal(n->py.program, program);
	/* It is another program by now. */
	note_exec(f, 90, 70);
	expect_asked(f, 90);
}

/* Children of children, none of them known; but not without end. */
static void forked_deeply(void **state)
{
	struct fix *f = *state;
	pid_t last = 200;

	parent(f);
	note_fork(f, last, PARENT, THREAD, 50);
	for (int i = 0; i < 8; i++, last++)
		note_fork(f, last + 1, last, last, 51 + (uint64_t)i);
	expect_copy(f, last, last - 1, 58);
	memset(f->r->newborn, 0, sizeof(f->r->newborn));
	note_fork(f, last + 1, last, last, 59);
	expect_asked(f, last + 1);
	/* A circle, as numbers that come back can make one. */
	note_fork(f, 300, 301, 301, 80);
	note_fork(f, 301, 300, 300, 80);
	expect_asked(f, 300);
}

/* A child in its parent's place of those that are kept. */
static void forked_in_one_place(void **state)
{
	struct fix *f = *state;

	parent(f);
	note_fork(f, 90, PARENT, THREAD, 50);
	note_fork(f, 90 + NEWBORNS, 90, 90, 60);
	expect_copy(f, 90, THREAD, 50);
	expect_asked(f, 90 + NEWBORNS);
	expect_copy(f, 90, THREAD, 50);
}

/* The parent is not what it was at the fork, or nobody knows what. */
static void forked_of_another(void **state)
{
	struct fix *f = *state;
	struct target *t = parent(f);

	note_fork(f, 90, PARENT, THREAD, 50);
	t->begun_ns = 51;
	expect_asked(f, 90);
	t->begun_ns = 49;
	t->inner_tids = true;
	expect_asked(f, 90);
	t->inner_tids = false;
	t->state = TARGET_NOPYTHON;
	expect_asked(f, 90);
	t->state = TARGET_PYTHON;
	expect_copy(f, 90, THREAD, 50);
	note_fork(f, 91, PARENT, THREAD, 60);
	note_exec(f, PARENT, 70); /* its child is not, but there is nothing to copy */
	expect_asked(f, 91);
}

/* Nobody has looked at the parent, which is like another process. */
static void forked_of_sleeper(void **state)
{
	struct fix *f = *state;
	struct target *t = publish(f, PARENT, TARGET_PENDING);

	note_fork(f, 90, PARENT, THREAD, 50);
	put_memory(f, PARENT, ID_AT, ID, ID_BYTES);
	expect_asked(f, 90);
	t->plain = true;
	assert_int_equal(able(f, 90), PYSTACK_OK);
	assert_int_equal(f->w.program->pid, 90);
	assert_int_equal(f->w.program->py.pid, 90);
	assert_int_equal(f->w.program->runtime, RUNTIME);
	assert_int_equal(f->w.program->py.root, 0);
}

/* --- what is known --- */

/* Python has mapped what may be another interpreter: until somebody has looked at that nobody
 * knows whose frames its threads have. */
static void maps_another_interpreter(void **state)
{
	struct fix *f = *state;

	f->t->state = TARGET_PYTHON;
	f->t->looked_ns = 110;
	note_map(f, PID, CODE_AT, 120);
	assert_int_equal(able(f, PID), PYSTACK_OK);
	note_map_of(f, PID, CODE_AT, "/lib/libpython3.12.so.1.0", 110);
	assert_int_equal(able(f, PID), PYSTACK_OK);
	note_map_of(f, PID, CODE_AT, "/lib/libpython3.12.so.1.0", 111);
	expect_asked(f, PID);
	f->t->looked_ns = 111;
	assert_int_equal(able(f, PID), PYSTACK_OK);
	assert_false(f->w.undecided);
}

/* Its runtime has no interpreter yet, as its own memory says. */
static void starting(void **state)
{
	static const uint64_t none, some = 1;
	struct fix *f = *state;

	f->t->state = TARGET_STARTING;
	f->t->py = f->known->py;
	expect_asked(f, PID);
	put_memory(f, PID + 1, f->t->py.walk.interp_head, &none, 8);
	expect_asked(f, PID);
	put_memory(f, PID, f->t->py.walk.interp_head, &some, 8);
	expect_asked(f, PID);
	f->n_memory = 0;
	put_memory(f, PID, f->t->py.walk.interp_head, &none, 8);
	assert_int_equal(able(f, PID), PYSTACK_NOPYTHON);
	assert_false(f->w.undecided);
}

static void quarantined(void **state)
{
	struct fix *f = *state;

	f->t->state = TARGET_QUARANTINED;
	assert_int_equal(able(f, PID), PYSTACK_END_N);
	assert_false(f->w.undecided);
	assert_int_equal(STATS_GET(&f->stats, torn_quarantined), 1);
	f->t->nopython = true; /* but nobody knows until when */
	assert_int_equal(able(f, PID), PYSTACK_END_N);
	assert_int_equal(STATS_GET(&f->stats, torn_quarantined), 2);
	f->t->none_ns = UINT64_MAX;
	assert_int_equal(able(f, PID), PYSTACK_NOPYTHON);
	assert_int_equal(STATS_GET(&f->stats, torn_quarantined), 2);
	assert_int_equal(STATS_GET(&f->stats, torn_notready), 0);
}

/* Some user's processes are not read: nor is one of which nobody knows yet whose it is. */
static void crowded(void **state)
{
	static const uint64_t none;
	struct fix *f = *state;
	struct target *parent;

	f->r->crowded = true;
	begin_anew(f);
	expect_asked(f, PID);
	f->t->state = TARGET_STARTING;
	f->t->begun_ns = 100;
	f->t->py = f->known->py;
	put_memory(f, PID, f->t->py.walk.interp_head, &none, 8);
	expect_asked(f, PID);
	/* Nor one that nobody knows at all, but as the copy of one that is read. */
	put_memory(f, 91, ID_AT + MOVED, ID, ID_BYTES);
	note_exec(f, 91, 100);
	note_map(f, 91, CODE_AT + MOVED, 110);
	expect_asked(f, 91);
	parent = publish(f, PARENT, TARGET_PENDING);
	parent->plain = true;
	put_memory(f, PARENT, ID_AT, ID, ID_BYTES);
	expect_asked(f, PARENT);
	note_fork(f, 90, PARENT, THREAD, 50);
	expect_asked(f, 90);
	parent->state = TARGET_PYTHON;
	assert_int_equal(able(f, 90), PYSTACK_OK);
	f->r->crowded = false;
	parent->state = TARGET_PENDING;
	expect_known(f, PARENT, 0);
	expect_known(f, 91, MOVED);
	expect_known(f, PID, MOVED);
}

/* A question for which there was no room is asked by the next sample. */
static void no_room_to_ask(void **state)
{
	struct fix *f = *state;
	const struct ctl_msg m = { .pid = PARENT };

	while (emit_control(f->r, CTL_EXIT, m))
		;
	assert_int_equal(able(f, PID), PYSTACK_END_N);
	assert_int_equal(STATS_GET(&f->stats, side_lost), 2);
	while (queue_peek(&f->slot.ctl))
		queue_pop(&f->slot.ctl);
	assert_int_equal(able(f, PID), PYSTACK_END_N);
	expect_control(f, CTL_LOOK, PID, 1234);
	begin_anew(f);
	f->t->asked = false;
	while (emit_control(f->r, CTL_EXIT, m))
		;
	expect_known(f, PID, MOVED);
	while (queue_peek(&f->slot.ctl))
		queue_pop(&f->slot.ctl);
	expect_known(f, PID, MOVED);
	expect_control(f, CTL_LOOK, PID, 1234);
}

/* Does what was known of it when it was read still stand at the end? */
static void stands(void **state)
{
	struct fix *f = *state;

	f->t->begun_ns = 100;
	f->t->state = TARGET_NOPYTHON;
	f->t->none_ns = 120;
	note_exec(f, PID, 100);
	assert_true(program_stands(f->r, f->t, true));
	note_map(f, PID, CODE_AT, 119);
	assert_true(program_stands(f->r, f->t, true));
	note_map(f, PID, CODE_AT, 120);
	assert_false(program_stands(f->r, f->t, true));
	assert_true(program_stands(f->r, f->t, false));
	f->t->state = TARGET_STARTING; /* as its memory said, whatever it maps */
	assert_true(program_stands(f->r, f->t, true));
	f->t->state = TARGET_NOPYTHON;
	f->t->none_ns = 130;
	f->c.blind_ns = 130;
	assert_false(program_stands(f->r, f->t, true));
	f->c.blind_ns = 129;
	assert_true(program_stands(f->r, f->t, true));
	f->c.blind_ns = UINT64_MAX; /* the recording ends */
	assert_true(program_stands(f->r, f->t, true));
	note_exec(f, PID, 101);
	assert_false(program_stands(f->r, f->t, true));
	assert_false(program_stands(f->r, f->t, false));
}

/* Another child has got the number of one that was read as its forker's copy, or as the program
 * that it had become. What the control thread has published it looks at itself. */
static void a_number_is_anothers(void **state)
{
	struct fix *f = *state;
	const struct target *n;

	parent(f);
	note_fork(f, 90, PARENT, THREAD, 50);
	n = expect_copy(f, 90, THREAD, 50);
	assert_true(program_stands(f->r, n, false));
	note_fork(f, 90, PARENT, PARENT, 60);
	assert_false(program_stands(f->r, n, false));
	begin_anew(f);
	n = expect_known(f, PID, MOVED);
	assert_true(program_stands(f->r, n, false));
	note_fork(f, PID, PARENT, PARENT, 90); /* its own, which was read late */
	assert_true(program_stands(f->r, n, false));
	note_fork(f, PID, PARENT, PARENT, 101);
	assert_false(program_stands(f->r, n, false));
	f->t->begun_ns = 100;
	f->t->py.program = 1;
	assert_true(program_stands(f->r, f->t, false));
}

/* Nobody knows when one that began before the recording got its number. */
static void the_number_of_a_sleeper(void **state)
{
	struct fix *f = *state;
	const struct target *n;

	f->t->plain = true;
	put_memory(f, PID, ID_AT, ID, ID_BYTES);
	n = expect_known(f, PID, 0);
	note_fork(f, PID, PARENT, PARENT, 101);
	assert_true(program_stands(f->r, n, false));
}

/* No other ring needs to be looked into for what it is. */
static void settled(void **state)
{
	struct fix *f = *state;

	f->table.at = f->words;
	f->c.table = &f->table;
	f->r->saw_all_ns = 1000;
	f->t->begun_ns = 100;
	assert_false(program_settled(f->r, NULL));
	assert_false(program_settled(f->r, f->t));
	f->t->state = TARGET_PYTHON;
	assert_true(program_settled(f->r, f->t));
	for (size_t i = 0; i < ARRAY_SIZE(f->words); i++)
		f->words[i] = 1000;
	assert_true(program_settled(f->r, f->t));
	for (size_t i = 0; i < ARRAY_SIZE(f->words); i++)
		f->words[i] = 1001; /* an exec that may lie in a ring */
	assert_false(program_settled(f->r, f->t));
	memset((void *)f->words, 0, sizeof(f->words));
	note_exec(f, PID, 101);
	assert_false(program_settled(f->r, f->t));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(newborn),
		TEST(newborn_that_nobody_knows), TEST(newborn_again),
		TEST(newborns_in_one_place),
		TEST(newborn_must_be_there),
		TEST(newborn_of_which_two_differ),
		TEST(maps_of_before),
		TEST(without_code_versions),
		TEST(states_before),
		TEST(numbers_of_threads),
		TEST(sleeper),
		TEST(sleeper_in_place),
		TEST(sleeper_of_several),
		TEST(sleeper_seen),
		TEST(forked),
		TEST(forked_deeply),
		TEST(forked_in_one_place),
		TEST(forked_of_another),
		TEST(forked_of_sleeper),
		TEST(crowded),
		TEST(maps_another_interpreter),
		TEST(starting),
		TEST(quarantined),
		TEST(no_room_to_ask),
		TEST(stands),
		TEST(a_number_is_anothers),
		TEST(the_number_of_a_sleeper),
		TEST(settled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
