/* SPDX-License-Identifier: MIT
 *
 * gecko_track_test - the tables of one thread among many.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"
#include "base/stats.h"
#include "../../output/gecko_track.h"

static const struct pyfunc spin = { "spin", "/srv/work.py", 5, 5, 14, 0 };

struct fixture {
	struct session session;
	struct stats stats;
	struct tree tree;
	struct sink sink;
	struct buf moments;
};

static void begin(struct fixture *f)
{
	struct err err;

	*f = (struct fixture){ .session = { .flags = SESSION_LINES, .n_events = 1 } };
	strcpy(f->session.events[0].name, "cycles");
	f->session.stats = &f->stats;
	f->sink.session = &f->session;
	f->sink.priv = &f->tree;
	f->sink.path = "-";
	assert_int_equal(tree_begin(&f->sink, &err), 0);
}

static void put(struct fixture *f, pid_t tid, const struct frame *fr, size_t n)
{
	const struct sample smp = { .pid = 10, .tid = tid, .period = 1, .time = 5 };
	struct moment m = { .time = 5 };

	assert_int_equal(tree_sample(&f->sink, &smp, &(struct stack){ n, fr }), 0);
	m.row = f->tree.last_row;
	buf_put(&f->moments, &m, sizeof(m));
}

/* Two samples of one thread with three nodes, the deeper stack first, and then of another one as many
 * as have @nodes. */
static void put_two_threads(struct fixture *f, int nodes)
{
	struct frame fr[3];

	for (int i = 0; i < 3; i++)
		fr[i] = (struct frame){ .kind = FRAME_PYTHON, .func = &spin, .line = 9 - i };
	put(f, 12, fr, 3);
	put(f, 12, fr + 1, 2);
	for (fr[0].line = 10; fr[0].line < 10 + nodes; fr[0].line++)
		put(f, 11, fr, 1);
}

/* The track of the first thread. */
static char *write_track(struct fixture *f, uint32_t *node_row)
{
	size_t n_rows = tree_n_rows(&f->tree), n;
	uint32_t *of_row = calloc(n_rows, sizeof(*of_row)), *done = calloc(n_rows, sizeof(*done));
	uint64_t *rest = calloc(n_rows, sizeof(*rest));
	struct gecko_track k = { .t = &f->tree, .session = &f->session, .of_row = of_row };
	struct gecko_order order;
	char *ret;

	for (size_t i = 0; i < n_rows; i++)
		of_row[i] = 1;
	assert_int_equal(gecko_order_init(&order, &f->tree, (const void *)f->moments.at,
					  f->moments.n / sizeof(struct moment), 1),
			 0);
	k.out = open_memstream(&ret, &n);
	k.order = &order;
	k.n = order.first[1];
	k.done = done;
	k.rest = rest;
	k.node_row = node_row;
	k.event[0] = strtab_add(f->tree.strings, "cycles", 6);
	assert_int_equal(gecko_track_put(&k, k.n, k.n), 0);
	fclose(k.out);
	gecko_order_deinit(&order);
	buf_deinit(&k.nodes);
	free(of_row);
	free(done);
	free(rest);
	return ret;
}

/* Of a server with a thread a request each has few of them. Where the first page of their rows ends
 * nothing may be read. */
static void a_track_looks_at_its_own_nodes(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct fixture f;
	uint32_t *rows;
	char *got;

	(void)state;
	begin(&f);
	put_two_threads(&f, (int)(page / sizeof(*rows)));
	assert_true(tree_n_nodes(&f.tree) > page / sizeof(*rows));
	rows = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(rows, MAP_FAILED);
	assert_int_equal(mprotect(rows, page, PROT_READ | PROT_WRITE), 0);
	got = write_track(&f, rows);
	assert_non_null(strstr(got, "\"stackTable\":{\"length\":3,\n\"prefix\":[null,0,1]"));
	assert_non_null(strstr(got, "\"stack\":[2,1]"));
	for (size_t i = 0; i < page / sizeof(*rows); i++)
		assert_int_equal(rows[i], 0);
	free(got);
	munmap(rows, 2 * page);
	buf_deinit(&f.moments);
	tree_deinit(&f.tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_track_looks_at_its_own_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
