/* SPDX-License-Identifier: MIT
 *
 * pyfind - is this process a CPython, which one, and where is its runtime?
 */
#include "python/pyfind.h"

#include <errno.h>
#include <limits.h>

#include "elf/file_helper.h"
#include "offsets/debug_offsets.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "sys/rights.h"
#include "python/pyfind_cache.h"
#include "python/pymapped.h"
#include "python/pyversion.h"

enum {
	NEIGHBOURS = 64,
	PROGRAMS = 10,	   /* that a process may become while it is looked at */
	OTHER_PROGRAM = 1, /* it became one: what it was can't be read any more */
};

/* A file that is mapped, once, however many mappings it has. */
struct candidate {
	const struct proc_map *map; /* its first */
	int rank;		    /* 0 the program, 1 named like libpython, 2 the rest */
	size_t order;
};

struct search {
	pid_t pid;
	struct rmem *m;
	struct file_helper *files; /* or NULL */
	struct proc_maps maps;
	char comm[16];
	uint64_t root;
	char exe[PATH_MAX];
	bool partly;	 /* a file that holds an interpreter is not all mapped */
	struct err best; /* the most telling failure so far, code 0: none */
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Sentences
 */

static const char *supported(char buf[32])
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);

	snprintf(buf, 32, "%u.%u, %u.%u to %u.%u", all[0]->version >> 8,
		 all[0]->version & 0xff, all[1]->version >> 8, all[1]->version & 0xff,
		 all[n - 1]->version >> 8, all[n - 1]->version & 0xff);
	return buf;
}

static int denied(const struct search *s, int code, struct err *err)
{
	_cleanup_free_ char *yama = NULL;
	char wanted[200];
	int scope = 0;

	rights_wanted(wanted, sizeof(wanted), "CAP_SYS_PTRACE");
	if (!proc_dumpable(s->pid))
		return err_set(err, code,
			       "not allowed to read the memory of process %d (%s), which is "
			       "not dumpable (setuid, or prctl(PR_SET_DUMPABLE, 0)): %s",
			       s->pid, s->comm, wanted);
	if (proc_read_file("/proc/sys/kernel/yama/ptrace_scope", &yama, NULL) == 0)
		scope = atoi(yama);
	if (scope > 0)
		return err_set(err, code,
			       "not allowed to read the memory of process %d (%s): %s, or "
			       "set kernel.yama.ptrace_scope (now %d) to 0",
			       s->pid, s->comm, wanted, scope);
	return err_set(
		err, code,
		"not allowed to read the memory of process %d (%s): %s, or run as its user",
		s->pid, s->comm, wanted);
}

static int no_process(pid_t pid, struct err *err)
{
	return err_set(err, -ESRCH, "process %d does not exist", pid);
}

/* "3.8" of "libpython3.8.so.1.0" or "python3.8"; "" where the name does not tell. */
static const char *version_in_name(const char *path, unsigned *major, unsigned *minor,
				   char buf[16])
{
	const char *at = strstr(base_name(path), "python");

	buf[0] = '\0';
	*major = *minor = 0;
	if (at && sscanf(at, "python%1u.%2u", major, minor) == 2)
		snprintf(buf, 16, " %u.%u", *major, *minor);
	return buf;
}

static int not_found(const struct search *s, const char *path, struct err *err)
{
	char name[16], range[32];
	unsigned major, minor;

	version_in_name(path, &major, &minor, name);
	if (pylayout_find((uint16_t)(major << 8 | minor)))
		return err_set(err, -ENOTSUP,
			       "process %d (%s) runs CPython%s (%s), but nothing in this file "
			       "tells where its interpreters are",
			       s->pid, s->comm, name, base_name(path));
	return err_set(err, -ENOTSUP, "process %d (%s) runs CPython%s (%s): supported are %s",
		       s->pid, s->comm, *name ? name : " of a version that nothing tells",
		       base_name(path), supported(range));
}

/*
 * Modules
 */

static int module_rank(const struct search *s, const struct proc_map *map)
{
	if (!strcmp(map->path, s->exe))
		return 0;
	/* Extension modules are many, and seldom hold an interpreter: json.cpython-313.so. */
	return strstr(base_name(map->path), "python") &&
			       !strstr(base_name(map->path), ".cpython-") ?
		       1 :
		       2;
}

static int module_compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank - y->rank;
	return (x->order > y->order) - (x->order < y->order);
}

static bool same_file(const struct proc_map *a, const struct proc_map *b)
{
	return a->ino == b->ino && a->maj == b->maj && a->min == b->min;
}

/* Files with an executable mapping, best candidates first; *@ret malloc'ed. The
 * program itself counts without one: its text may be in huge pages. */
static int modules_list(const struct search *s, struct candidate **ret, size_t *n)
{
	struct candidate *list = calloc(s->maps.n + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < s->maps.n; i++) {
		const struct proc_map *map = &s->maps.map[i];
		int rank = module_rank(s, map);
		size_t j = 0;

		if (!map->ino || map->path[0] != '/' || (!map->x && rank == 2))
			continue;
		/* Mappings of a file are neighbours, nearly always; one that is listed twice
		 * is looked at twice. */
		while (j < MIN(count, (size_t)NEIGHBOURS) &&
		       !same_file(list[count - 1 - j].map, map))
			j++;
		if (j == MIN(count, (size_t)NEIGHBOURS)) {
			list[count] = (struct candidate){ map, rank, count };
			count++;
		}
	}
	qsort(list, count, sizeof(*list), module_compare);
	*ret = list;
	*n = count;
	return 0;
}

/* Is @at in memory that the interpreter could write? Its state is. */
static bool writable(const struct search *s, raddr at)
{
	for (size_t i = 0; i < s->maps.n; i++)
		if (at >= s->maps.map[i].start && at < s->maps.map[i].end)
			return s->maps.map[i].r && s->maps.map[i].w;
	return false;
}

/* What to add to the file's addresses. A mapping tells it that begins where a
 * segment begins in the file, if the runtime then lies in writable memory. */
static bool load_bias(const struct search *s, const struct candidate *mod,
		      const struct elfpython *elf, uint64_t *ret)
{
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	for (size_t i = 0; i < s->maps.n; i++) {
		const struct proc_map *map = &s->maps.map[i];

		for (uint32_t j = 0; same_file(map, mod->map) && j < elf->n_loads; j++) {
			if ((elf->load[j].offset & ~in_page) != map->pgoff)
				continue;
			*ret = map->start - (elf->load[j].vaddr & ~in_page);
			if (writable(s, *ret + elf->runtime))
				return true;
		}
	}
	return false;
}

/*
 * Versions and layouts
 */

/* As the file tells it: by a variable of 3.11 on, or by its name. */
static int version_read(const struct search *s, const struct elfpython *elf,
			const struct candidate *mod, uint64_t bias, uint32_t *ret)
{
	uint64_t version;
	unsigned major, minor;
	char name[16];

	if (elf->py_version && rmem_read_u64(s->m, bias + elf->py_version, &version) == 0 &&
	    version >> 24 == 3) {
		*ret = (uint32_t)version;
		return 0;
	}
	if (*version_in_name(mod->map->path, &major, &minor, name) && minor < 13) {
		*ret = (uint32_t)major << 24 | (uint32_t)minor << 16;
		return 0;
	}
	return -ENOENT;
}

/* Neither the file nor its name tells the version. */
static int layout_search(const struct search *s, const struct candidate *mod, struct pyproc *p,
			 struct err *err)
{
	int r = pyversion_find(p, s->m);

	if (r == -EAGAIN)
		return err_set(
			err, r,
			"process %d (%s): its Python is starting or ending: no thread yet",
			s->pid, s->comm);
	return r < 0 ? not_found(s, mod->map->path, err) : 0;
}

static int no_table(const struct search *s, const struct pyproc *p, struct err *err)
{
	char range[32];

	return err_set(err, -ENOTSUP,
		       "process %d (%s) runs CPython %u.%u (%s): supported are %s", s->pid,
		       s->comm, p->version >> 24, p->version >> 16 & 0xff,
		       base_name(p->module), supported(range));
}

/* 3.13+: the runtime begins with the offsets. */
static int layout_told(const struct search *s, struct pyproc *p, struct bytes raw,
		       bool free_threaded, struct err *err)
{
	const uint16_t minor = (uint16_t)(p->version >> 16);
	const struct pylayout *table =
		free_threaded ? pylayout_find_free_threaded(minor) : pylayout_find(minor);
	struct err why = { 0 };

	if (!table)
		return no_table(s, p, err);
	if (debug_offsets_parse(raw, table, &p->layout, &why) < 0)
		return err_set(err, -ENOTSUP,
			       "process %d (%s): CPython %u.%u says of itself "
			       "what cannot be (%.200s)",
			       s->pid, s->comm, p->version >> 24, p->version >> 16 & 0xff,
			       why.text);
	return 0;
}

static int layout_choose(const struct search *s, const struct elfpython *elf,
			 const struct candidate *mod, uint64_t bias, struct pyproc *p,
			 struct err *err)
{
	unsigned char raw[DEBUG_OFFSETS_MAX];
	struct bytes told = { raw, 0 };
	const struct pylayout *table;
	bool free_threaded;
	int r;

	/* Older runtimes are smaller than this: two steps. */
	r = rmem_read(s->m, p->runtime, raw, 24);
	if (r == 0 && !memcmp(raw, "xdebugpy", 8)) {
		r = rmem_read(s->m, p->runtime, raw, sizeof(raw));
		told.n = sizeof(raw);
	}
	if (r == -EPERM || r == -EACCES)
		return denied(s, r, err);
	if (r < 0)
		return r == -ESRCH ? no_process(s->pid, err) :
				     err_set(err, -ENOTSUP,
					     "process %d (%s): its _PyRuntime cannot be read",
					     s->pid, s->comm);
	if (told.n && debug_offsets_version(told, &p->version, &free_threaded) == 0)
		return layout_told(s, p, told, free_threaded, err);
	if (!p->version && version_read(s, elf, mod, bias, &p->version) < 0)
		r = layout_search(s, mod, p, err);
	if (r < 0)
		return r;
	table = pylayout_find((uint16_t)(p->version >> 16));
	/* 3.13 and later always tell; one that does not is not what it seems. */
	if (!table || p->version >= 0x030d0000)
		return no_table(s, p, err);
	p->layout = *table;
	/* What no self-check proves is believed of verified versions only. */
	if ((p->version >> 8 & 0xff) < table->micro_min ||
	    (p->version >> 8 & 0xff) > table->micro_max)
		p->layout.interp.code_versions_global = false;
	return 0;
}

static void describe(struct pyproc *p, const struct elfpython *elf)
{
	snprintf(p->build, sizeof(p->build), "%s%s%s", elf->program ? "static" : "shared",
		 elf->stripped ? ", stripped" : "",
		 p->layout.free_threaded ? ", free-threaded" : "");
}

const char *pyproc_version(const struct pyproc *p, char buf[16])
{
	snprintf(buf, 16, "%u.%u", p->version >> 24 & 0xff, p->version >> 16 & 0xff);
	/* The low byte of a release is not 0 where it was read. */
	if (p->version & 0xffff)
		snprintf(buf + strlen(buf), 16 - strlen(buf), ".%u", p->version >> 8 & 0xff);
	return buf;
}

static int prove(const struct search *s, struct pyproc *p, bool known, struct err *err)
{
	struct err why = { 0 };
	char version[16];
	int r = pyfind_selfcheck(p, s->m, known, &why);

	if (r == -ESRCH)
		return no_process(s->pid, err);
	if (r == -EPERM || r == -EACCES)
		return denied(s, r, err);
	if (r == -EAGAIN || r == -ENOMEM)
		return err_set(err, r, "process %d (%s): %.200s", s->pid, s->comm, why.text);
	if (r < 0)
		return err_set(err, -ENOTSUP,
			       "process %d (%s) runs CPython %s, but not as this program "
			       "knows it: %.200s",
			       s->pid, s->comm, pyproc_version(p, version), why.text);
	return 0;
}

/* The micro version, where only a file's name told the others. */
static int learn_micro(const struct search *s, struct pyproc *p, struct err *err)
{
	struct pyproc told = *p;
	char name[16], says[16];

	if ((p->version & 0xffff) || pyversion_told(p, s->m, &told.version) < 0)
		return 0;
	if (told.version >> 16 != p->version >> 16)
		return err_set(err, -ENOTSUP,
			       "process %d (%s) runs CPython %s by the name of its file (%s), "
			       "but says that it is %s",
			       s->pid, s->comm, pyproc_version(p, name), base_name(p->module),
			       pyproc_version(&told, says));
	p->version = told.version;
	return 0;
}

/* Where its code lies, and what tells that it is the same in another process. */
static void learn_code(const struct search *s, const struct candidate *mod,
		       const struct elfpython *elf, uint64_t bias, struct pyfind_code *ret)
{
	const struct proc_map *map = NULL;

	for (size_t i = 0; !map && i < s->maps.n; i++)
		if (s->maps.map[i].x && same_file(&s->maps.map[i], mod->map))
			map = &s->maps.map[i];
	if (!map || !elf->build_id_n || elf->build_id_n > sizeof(ret->build_id) ||
	    rmem_read(s->m, bias + elf->build_id, ret->build_id, elf->build_id_n) < 0)
		return;
	ret->maj = map->maj;
	ret->min = map->min;
	ret->ino = map->ino;
	ret->pgoff = map->pgoff;
	ret->at = map->start;
	ret->build_id_at = bias + elf->build_id;
	ret->build_id_n = elf->build_id_n;
}

/* Is @mod the interpreter, as far as memory tells it (@mapped), or its file? -ENOEXEC: no. */
static int module_try(struct search *s, const struct candidate *mod, bool mapped,
		      struct pyproc *p, struct err *err)
{
	struct elfpython elf;
	struct pyfind_file file;
	uint32_t known;
	uint64_t bias;
	int r, fd;

	if (mapped && (mod->map->pgoff || pymapped_read(s->m, mod->map->start, &elf) < 0))
		return -ENOEXEC;
	fd = proc_map_open(s->pid, mod->map);

	if (proc_is_short(fd))
		return proc_short(s->pid, fd, err);
	if (fd < 0)
		return -ENOEXEC;
	r = mapped ? pyfind_cache_file(fd, &file) :
		     pyfind_cache_read(fd, mod->map->path, s->files, &elf, &file);
	close(fd);
	if (proc_is_short(r))
		return proc_short(s->pid, r, err);
	if (r == -EPROTO)
		return err_set(err, -ENOTSUP,
			       "process %d (%s): whoever reads %s ends, so nothing tells "
			       "whether it is CPython",
			       s->pid, s->comm, base_name(mod->map->path));
	if (r < 0)
		return -ENOEXEC;
	if (elf.pypy)
		return err_set(err, -ENOTSUP,
			       "process %d (%s) runs PyPy, not CPython; 'pysampled record "
			       "--any' samples it natively",
			       s->pid, s->comm);
	if (!elf.runtime)
		return elf.python ? not_found(s, mod->map->path, err) : -ENOEXEC;
	if (!load_bias(s, mod, &elf, &bias)) {
		s->partly = true;
		return -ENOEXEC;
	}
	known = pyfind_cache_proven(&file);
	*p = (struct pyproc){ .pid = s->pid, .runtime = bias + elf.runtime, .version = known };
	snprintf(p->module, sizeof(p->module), "%s", mod->map->path);
	r = layout_choose(s, &elf, mod, bias, p, err);
	if (r < 0)
		return r;
	/* Only the file names what counts them. */
	if (p->layout.interp.code_versions_global && mapped)
		return -ENOEXEC;
	if (p->layout.interp.code_versions_global && elf.func_version)
		p->code_versions = bias + elf.func_version;
	describe(p, &elf);
	learn_code(s, mod, &elf, bias, &p->code);
	r = prove(s, p, known, err);
	if (r == 0)
		r = learn_micro(s, p, err);
	if (r == 0)
		pyfind_cache_prove(&file, p->version);
	/* What was proven of the same file in one process is true in all, also before there
	 * is anything to prove it by, and while it is half made. */
	return (r == -EAGAIN || r == -ENOTSUP) && known ? 0 : r;
}

static int modules_try(struct search *s, struct pyproc *p, struct err *err)
{
	_cleanup_free_ struct candidate *list = NULL;
	struct pyproc found;
	size_t n;
	int r = modules_list(s, &list, &n);

	if (r < 0)
		return err_set(err, r, "out of memory");
	/* While nobody reads files: to have somebody do it takes longer than all the rest. */
	if (s->files && file_helper_sleeps(s->files)) {
		struct err why;

		for (size_t i = 0; i < n && list[i].rank < 2; i++)
			if (module_try(s, &list[i], true, p, &why) == 0)
				return 0;
		*p = (struct pyproc){ 0 };
	}
	for (size_t i = 0; i < n; i++) {
		struct err why = { 0 };

		r = module_try(s, &list[i], false, &found, &why);
		if (r == 0 || (r == -EAGAIN && found.version && s->best.code != -EAGAIN))
			*p = found;
		if (r == 0)
			return 0;
		/* What a module says outweighs that others are no Python, and that one
		 * may still start outweighs that it cannot be read. */
		if (r != -ENOEXEC && (!s->best.code || r == -EAGAIN))
			s->best = why;
	}
	if (s->best.code)
		return err_set(err, s->best.code, "%s", s->best.text);
	return err_set(err, -ENOEXEC,
		       "process %d (%s) is no CPython: none of its %zu mapped "
		       "files holds an interpreter",
		       s->pid, s->comm, n);
}

static void exe_read(struct search *s)
{
	static const char deleted[] = " (deleted)";
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", s->pid);
	n = readlink(path, s->exe, sizeof(s->exe) - 1);
	s->exe[MAX(n, 0)] = '\0';
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

static int find_once(pid_t pid, struct rmem *m, struct file_helper *files, struct pyproc *ret,
		     struct err *err)
{
	_cleanup_free_ struct search *s = calloc(1, sizeof(*s));
	struct pyproc p = { 0 };
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->pid = pid;
	s->m = m;
	s->files = files;
	r = proc_introduce(pid, s->comm, &s->root);
	if (proc_is_short(r))
		return proc_short(pid, r, err);
	if (r < 0)
		return no_process(pid, err);
	exe_read(s);
	r = proc_maps_read(&s->maps, pid);
	if (proc_is_short(r))
		return proc_short(pid, r, err);
	if (r == -ESRCH)
		return no_process(pid, err);
	if (r == -EPERM || r == -EACCES)
		return denied(s, r, err);
	if (r < 0)
		return err_set(err, r, "the maps of process %d (%s): %s", pid, s->comm,
			       strerror(-r));
	r = modules_try(s, &p, err);
	if (r < 0 && s->root && proc_stack_root(pid) != s->root)
		r = OTHER_PROGRAM;
	p.n_maps = s->maps.n;
	proc_maps_deinit(&s->maps);
	p.partly = s->partly;
	p.root = s->root;
	p.unborn = (r == 0 || r == -EAGAIN) && never_began(s, &p);
	*ret = p;
	return r;
}

int pyfind(pid_t pid, struct rmem *m, struct file_helper *files, struct pyproc *ret,
	   struct err *err)
{
	int r = OTHER_PROGRAM;

	for (int i = 0; r == OTHER_PROGRAM && i < PROGRAMS; i++)
		r = find_once(pid, m, files, ret, err);
	return r == OTHER_PROGRAM ? err->code : r;
}
