/* SPDX-License-Identifier: MIT
 *
 * pyfind - is this process a CPython, which one, and where is its runtime?
 */
#include "python/pyfind.h"

#include <errno.h>

#include "base/base.h"
#include "base/clock.h"
#include "elf/file_helper.h"
#include "sys/proc.h"
#include "python/pyfind_int.h"

enum {
	PROGRAMS = 10,	   /* that a process may become while it is looked at */
	OTHER_PROGRAM = 1, /* it became one: what it was can't be read any more */
};

bool pyproc_is_pending(const struct pyproc *p)
{
	for (uint32_t i = 0; i < p->n_others; i++)
		if (!p->other[i].proven && p->other[i].begun)
			return true;
	return false;
}

/* What was found so far. */
struct finds {
	int code;	      /* of p; -ENOEXEC: nothing yet */
	struct pyproc p;      /* the one that counts, but for its others, */
	struct pyproc one;    /* and the one that is looked at */
	struct pyproc others; /* whose others become p's */
};

static bool has_begun(const struct search *s, const struct pyproc *p)
{
	uint64_t head;

	return rmem_read_u64(s->m, p->runtime + pyoff_get(p->layout.runtime.interp_head),
			     &head) < 0 ||
	       head;
}

static void refuse(struct pyproc *p, const char *why)
{
	if (!p->refused[0])
		snprintf(p->refused, sizeof(p->refused), "%.199s", why);
}

/* @one is not the process's first interpreter. */
static void keep_other(const struct search *s, struct pyproc *p, const struct pyproc *one,
		       bool proven)
{
	struct pyproc_other *o = &p->other[p->n_others];

	if (p->n_others == PYFIND_OTHERS) {
		refuse(p, "there are more interpreters in it than can be read");
		return;
	}
	p->n_others++;
	*o = (struct pyproc_other){ .proven = proven,
				    .begun = has_begun(s, one),
				    .version = one->version,
				    .runtime = one->runtime,
				    .code_versions = one->code_versions,
				    .layout = one->layout,
				    .no_jit = one->no_jit };
	snprintf(o->file, sizeof(o->file), "%.63s", base_name(one->module));
}

static bool is_known(const struct finds *f, raddr runtime)
{
	for (uint32_t i = 0; i < f->others.n_others; i++)
		if (f->others.other[i].runtime == runtime)
			return true;
	return f->code != -ENOEXEC && f->p.runtime == runtime;
}

/* The first that is proven counts, else the first that may start. */
static void keep(struct search *s, struct finds *f, int code)
{
	struct pyproc *one = &f->one;

	if (f->code == -ENOEXEC || (code == 0 && f->code < 0)) {
		if (f->code != -ENOEXEC)
			keep_other(s, &f->others, &f->p, false);
		f->p = *one;
		f->code = code;
	} else {
		keep_other(s, &f->others, one, code == 0);
	}
}

/* It may be half made, and another look may prove it. */
static void keep_refused(const struct search *s, struct finds *f, const char *why)
{
	if (f->one.layout.version)
		keep_other(s, &f->others, &f->one, false);
	refuse(&f->others, why);
}

/* What a module says outweighs that others are no Python, and that one may still start
 * outweighs that it cannot be read. */
static void note_failure(struct search *s, int code, const struct err *why)
{
	if (code != -ENOEXEC && (!s->best.code || code == -EAGAIN))
		s->best = *why;
}

static int look_try(struct search *s, struct look *k, struct finds *f)
{
	uint64_t bias[PYFIND_OTHERS + 1];
	struct err why = { 0 };
	int r = pyfind_read(s, k, &why), ret = r < 0 ? -ENOENT : 0;
	size_t n = r < 0 ? 0 : pyfind_biases(s, k->mod, &k->elf, bias, ARRAY_SIZE(bias));

	if (r == 0 && !n)
		s->partly = true;
	note_failure(s, r < 0 ? r : -ENOEXEC, &why);
	for (size_t i = 0; i < n; i++) {
		if (is_known(f, bias[i] + k->elf.runtime))
			continue;
		why = (struct err){ 0 };
		r = pyfind_try(s, k, bias[i], &f->one, &why);
		if (r == 0 || (r == -EAGAIN && f->one.version))
			keep(s, f, r);
		else
			ret = -ENOEXEC;
		/* One that is not as another process has it is looked at once more. */
		if (r == -ENOTSUP && !k->believed)
			keep_refused(s, f, why.text);
		note_failure(s, r < 0 ? r : -ENOEXEC, &why);
	}
	return ret;
}

/* Each time that @mod was loaded, as far as memory tells it (@mapped), or its file. 0; -ENOENT
 * nothing tells of an interpreter in it; -ENOEXEC of one that could not be kept. */
static int candidate_try(struct search *s, const struct candidate *mod, bool mapped,
			 struct finds *f)
{
	struct look k = { .mod = mod, .mapped = mapped };
	struct err best = s->best;
	bool partly = s->partly;
	int r = look_try(s, &k, f);

	if (r == 0 || !k.believed)
		return r;
	s->best = best;
	s->partly = partly;
	k = (struct look){ .mod = mod, .mapped = mapped, .doubted = true };
	return look_try(s, &k, f);
}

/* Does memory tell all that files named like Python may hold? A program that exports no
 * interpreter has none beside that of a library. */
static bool memory_tells(struct search *s, const struct candidate *list, size_t n,
			 struct finds *f)
{
	bool all = true;

	for (size_t i = 0; i < n && list[i].rank < 2; i++) {
		int r = candidate_try(s, &list[i], true, f);

		all = all && (r == 0 || (r == -ENOENT && list[i].rank == 0));
	}
	if (all && f->code == 0)
		return true;
	memset(f, 0, sizeof(*f));
	f->code = -ENOEXEC;
	s->best = (struct err){ 0 };
	s->partly = false;
	return false;
}

static int candidates_try(struct search *s, struct pyproc *p, struct err *err)
{
	_cleanup_free_ struct candidate *list = NULL;
	_cleanup_free_ struct finds *f = calloc(1, sizeof(*f));
	size_t n;
	int r = pyfind_modules(s, &list, &n);

	if (r < 0 || !f)
		return err_set(err, -ENOMEM, "out of memory");
	f->code = -ENOEXEC;
	/* While nobody reads files: to have somebody do it takes longer than all the rest. */
	if (!s->files || !file_helper_sleeps(s->files) || !memory_tells(s, list, n, f))
		/* Once there is one, only names lead to others: files are many. */
		for (size_t i = 0; i < n && (f->code < 0 || list[i].rank < 2); i++)
			candidate_try(s, &list[i], false, f);
	*p = f->p;
	/* Of a process without any that could be read the sentence says it all. */
	if (f->code == -ENOEXEC)
		f->others = (struct pyproc){ 0 };
	p->n_others = f->others.n_others;
	memcpy(p->other, f->others.other, sizeof(p->other));
	memcpy(p->refused, f->others.refused, sizeof(p->refused));
	if (f->code == 0)
		return 0;
	if (s->best.code)
		return err_set(err, s->best.code, "%s", s->best.text);
	if (s->pypy)
		return err_set(err, -ENOEXEC, "process %d (%s) runs PyPy, not CPython", s->pid,
			       s->comm);
	return err_set(err, -ENOEXEC,
		       "process %d (%s) is no CPython: none of its %zu mapped "
		       "files holds an interpreter",
		       s->pid, s->comm, n);
}

static void exe_read(struct search *s)
{
	static const char deleted[] = " (deleted)";
	ssize_t n = proc_link(s->pid, "exe", s->exe, sizeof(s->exe));

	n -= (ssize_t)sizeof(deleted) - 1;
	if (n > 0 && !strcmp(s->exe + n, deleted))
		s->exe[n] = '\0';
}

/* Has the runtime never had an interpreter? Its _PyRuntime says so until the first one:
 * struct pyinterpreters { mutex, head, main, next_id }, the last one -1. */
static bool never_began(const struct search *s, const struct pyproc *p)
{
	uint64_t v[3];

	return rmem_read(s->m, p->runtime + pyoff_get(p->layout.runtime.interp_head), v,
			 sizeof(v)) == 0 &&
	       v[0] == 0 && v[1] == 0 && v[2] == UINT64_MAX;
}

static int find_once(pid_t pid, uint64_t since_ns, struct rmem *m, struct file_helper *files,
		     struct pyproc *ret, struct err *err)
{
	_cleanup_free_ struct search *s = calloc(1, sizeof(*s));
	struct pyproc p = { 0 };
	uint64_t looked, age;
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->pid = pid;
	s->m = m;
	s->files = files;
	r = proc_introduce(pid, s->comm, &s->root, &age);
	if (proc_is_short(r))
		return proc_short(pid, r, err);
	if (r < 0)
		return pyfind_no_process(pid, err);
	if (!proc_is_so_old(age, since_ns))
		return err_set(err, -ESRCH, "process %d has ended", pid);
	exe_read(s);
	looked = now_ns();
	r = proc_maps_read(&s->maps, pid);
	if (proc_is_short(r))
		return proc_short(pid, r, err);
	if (r == -ESRCH)
		return pyfind_no_process(pid, err);
	if (r == -EPERM || r == -EACCES)
		return pyfind_denied(s, r, err);
	if (r == -EFBIG)
		return err_set(err, r,
			       "process %d (%s) has too many maps: /proc/%d/maps is longer "
			       "than %d MB",
			       pid, s->comm, pid, PROC_MAPS_MAX >> 20);
	if (r < 0)
		return err_set(err, r, "the maps of process %d (%s): %s", pid, s->comm,
			       strerror(-r));
	r = candidates_try(s, &p, err);
	if (r < 0 && s->root && proc_stack_root(pid) != s->root)
		r = OTHER_PROGRAM;
	p.looked_ns = looked;
	p.n_maps = s->maps.n;
	proc_maps_deinit(&s->maps);
	p.partly = s->partly;
	p.root = s->root;
	p.unborn = (r == 0 || r == -EAGAIN) && never_began(s, &p);
	*ret = p;
	return r;
}

int pyfind(pid_t pid, uint64_t since_ns, struct rmem *m, struct file_helper *files,
	   struct pyproc *ret, struct err *err)
{
	int r = OTHER_PROGRAM;

	for (int i = 0; r == OTHER_PROGRAM && i < PROGRAMS; i++)
		r = find_once(pid, since_ns, m, files, ret, err);
	return r == OTHER_PROGRAM ? err->code : r;
}
