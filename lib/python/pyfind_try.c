/* SPDX-License-Identifier: MIT
 *
 * pyfind_try - one file of a process: whether it holds an interpreter, of which version and layout,
 * and whether live threads agree.
 */
#include <errno.h>

#include "base/base.h"
#include "offsets/debug_offsets.h"
#include "python/pyfind_int.h"
#include "python/pymapped.h"
#include "python/pyversion.h"
#include "sys/proc.h"
#include "sys/rights.h"

enum { TELLS_BYTES = 24 /* of a runtime, that tell whether it tells more */ };

const char *pyproc_version(uint32_t version, char buf[16])
{
	snprintf(buf, 16, "%u.%u", version >> 24 & 0xff, version >> 16 & 0xff);
	/* The low byte of a release is not 0 where it was read. */
	if (version & 0xffff)
		snprintf(buf + strlen(buf), 16 - strlen(buf), ".%u", version >> 8 & 0xff);
	return buf;
}

static const char *supported(char buf[32])
{
	size_t n;
	const struct pylayout *const *all = pylayout_all(&n);

	snprintf(buf, 32, "%u.%u, %u.%u to %u.%u", all[0]->version >> 8,
		 all[0]->version & 0xff, all[1]->version >> 8, all[1]->version & 0xff,
		 all[n - 1]->version >> 8, all[n - 1]->version & 0xff);
	return buf;
}

int pyfind_denied(const struct search *s, int code, struct err *err)
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

int pyfind_no_process(pid_t pid, struct err *err)
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
		       "process %d (%s) runs CPython %u.%u (%s): supported are %s, and newer "
		       "ones with their debug info",
		       s->pid, s->comm, p->version >> 24, p->version >> 16 & 0xff,
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

	p->layout.free_threaded = free_threaded;
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

	/* Older runtimes are smaller than this. */
	r = rmem_read(s->m, p->runtime, raw, sizeof(raw));
	if (r < 0)
		r = rmem_read(s->m, p->runtime, raw, TELLS_BYTES);
	else if (!memcmp(raw, "xdebugpy", 8))
		told.n = sizeof(raw);
	if (r == -EPERM || r == -EACCES)
		return pyfind_denied(s, r, err);
	if (r < 0)
		return r == -ESRCH ? pyfind_no_process(s->pid, err) :
				     err_set(err, -ENOTSUP,
					     "process %d (%s): its _PyRuntime cannot be read",
					     s->pid, s->comm);
	if (told.n && debug_offsets_version(told, &p->version, &free_threaded) == 0)
		return layout_told(s, p, told, free_threaded, err);
	if (version_read(s, elf, mod, bias, &p->version) < 0)
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

static void describe(struct pyproc *p, const struct elfpython *elf,
		     const struct pyfind_debug *debug)
{
	const char *from = !debug	    ? "" :
			   debug->separate ? ", offsets from the debug info in its debug file" :
					     ", offsets from its debug info";

	snprintf(p->build, sizeof(p->build), "%s%s%s%s", elf->program ? "static" : "shared",
		 elf->stripped ? ", stripped" : "",
		 p->layout.free_threaded ? ", free-threaded" : "", from);
}

static int prove(const struct search *s, const struct pyproc *p, struct err *err)
{
	struct err why = { 0 };
	char version[16];
	int r = pyfind_selfcheck(p, s->m, &why);

	if (r == -ESRCH)
		return pyfind_no_process(s->pid, err);
	if (r == -EPERM || r == -EACCES)
		return pyfind_denied(s, r, err);
	if (r == -EAGAIN || r == -ENOMEM)
		return err_set(err, r, "process %d (%s): %.200s", s->pid, s->comm, why.text);
	if (r < 0)
		return err_set(err, -ENOTSUP,
			       "process %d (%s) runs CPython %s, but not as this program "
			       "knows it: %.200s",
			       s->pid, s->comm, pyproc_version(p->version, version), why.text);
	return 0;
}

/* The micro version, where only a file's name told the others. */
static int learn_micro(const struct search *s, struct pyproc *p, struct err *err)
{
	char name[16], says[16];
	uint32_t told;

	if ((p->version & 0xffff) || pyversion_told(p, s->m, &told) < 0)
		return 0;
	if (told >> 16 != p->version >> 16)
		return err_set(err, -ENOTSUP,
			       "process %d (%s) runs CPython %s by the name of its file (%s), "
			       "but says that it is %s",
			       s->pid, s->comm, pyproc_version(p->version, name),
			       base_name(p->module), pyproc_version(told, says));
	p->version = told;
	return 0;
}

/* Where its code lies, and what tells that it is the same in another process. */
static void learn_code(const struct search *s, const struct candidate *mod,
		       const struct elfpython *elf, uint64_t bias, struct pyfind_code *ret)
{
	const struct proc_map *map = NULL;

	for (size_t i = 0; !map && i < s->maps.n; i++)
		if (s->maps.map[i].x && proc_map_same_file(&s->maps.map[i], mod->map))
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

/* By the file itself, which is read; where that was done before it is not even opened. */
static int file_read(const struct search *s, struct look *k)
{
	struct stat st;
	int fd, r;

	if (proc_map_stat(s->pid, k->mod->map, &st) == 0) {
		k->file = pyfind_cache_file(&st);
		if (pyfind_cache_read_before(&k->file, &k->elf, &r))
			return r;
	}
	fd = pyfind_open(s, k->mod->map, &st, NULL);
	if (fd < 0)
		return proc_is_short(fd) ? fd : -ENOEXEC;
	k->file = pyfind_cache_file(&st);
	r = pyfind_cache_read(fd, k->mod->map->path, s->files, &k->elf, &k->file);
	close(fd);
	return r;
}

/* By what its process has in memory of it. */
static int mapped_read(const struct search *s, struct look *k)
{
	const struct proc_map *map = k->mod->map;
	struct stat st;
	int fd;

	if (map->pgoff)
		return -ENOEXEC;
	if (proc_map_stat(s->pid, map, &st) == 0)
		k->file = pyfind_cache_file(&st);
	k->believed = !k->doubted && pyfind_cache_mapped_before(&k->file, &k->elf);
	if (k->believed)
		return 0;
	if (pymapped_read(s->m, map->start, &k->elf) < 0)
		return -ENOEXEC;
	/* Without a file memory tells all that is needed. */
	fd = k->file.ino ? -ENOENT : pyfind_open(s, map, &st, NULL);
	if (fd >= 0) {
		k->file = pyfind_cache_file(&st);
		close(fd);
	}
	return 0;
}

int pyfind_read(struct search *s, struct look *k, struct err *err)
{
	const char *path = k->mod->map->path;
	int r = k->mapped ? mapped_read(s, k) : file_read(s, k);

	if (proc_is_short(r))
		return proc_short(s->pid, r, err);
	if (r == -EPROTO)
		return err_set(err, -ENOTSUP,
			       "process %d (%s): whoever reads %s ends, so nothing tells "
			       "whether it is CPython",
			       s->pid, s->comm, base_name(path));
	if (r < 0)
		return -ENOEXEC;
	s->pypy = s->pypy || k->elf.pypy;
	if (k->elf.pypy)
		return -ENOEXEC;
	if (!k->elf.runtime)
		return k->elf.python ? not_found(s, path, err) : -ENOEXEC;
	return 0;
}

/* Whether live threads are as @p's layout says. What was proven of the same file in one
 * process (@known, by this very layout: from 3.13 on a process's memory tells it) is true in
 * all, also before there is anything to prove it by, and while it is half made. */
static int copy_prove(const struct search *s, const struct look *k, uint64_t bias,
		      const struct pyfind_debug *debug, struct pyproc *p, bool known,
		      struct err *err)
{
	/* Only the file names what counts them. */
	if (p->layout.interp.code_versions_global && k->mapped)
		return -ENOEXEC;
	if (p->layout.interp.code_versions_global && k->elf.func_version)
		p->code_versions = bias + k->elf.func_version;
	describe(p, &k->elf, debug);
	learn_code(s, k->mod, &k->elf, bias, &p->code);
	return known ? 0 : prove(s, p, err);
}

/* The same by what debug info says, where @p's version has no table, or is not as that says
 * (@r, with its sentence). */
static int copy_debug(const struct search *s, const struct look *k, uint64_t bias,
		      struct pyproc *p, int r, struct err *err)
{
	struct pyfind_debug debug;

	if (pyfind_debug_layout(s, k->mod, &k->file, p, &debug) < 0 ||
	    !memcmp(&p->layout, &debug.layout, sizeof(p->layout)))
		return r;
	p->layout = debug.layout;
	r = copy_prove(s, k, bias, &debug, p, debug.proven, err);
	if (r == 0 && !debug.proven) {
		debug.proven = true;
		pyfind_cache_keep_debug(&k->file, &debug);
	}
	return r;
}

static bool proven_by_debug(const struct search *s, const struct look *k)
{
	struct pyfind_debug debug;

	return pyfind_cache_debug(&k->file, s->pid, &debug) && debug.proven;
}

int pyfind_try(const struct search *s, const struct look *k, uint64_t bias,
		    struct pyproc *p, struct err *err)
{
	bool same = false;
	int r;

	*p = (struct pyproc){ .pid = s->pid, .runtime = bias + k->elf.runtime };
	snprintf(p->module, sizeof(p->module), "%s", k->mod->map->path);
	r = layout_choose(s, &k->elf, k->mod, bias, p, err);
	if (r == 0 && proven_by_debug(s, k)) {
		r = -ENOTSUP;
	} else {
		same = r == 0 && pyfind_cache_proven_by(&k->file, &p->layout);
		if (k->believed && !same)
			return -ENOEXEC;
		if (r == 0)
			r = copy_prove(s, k, bias, NULL, p, same, err);
	}
	if (r == -ENOTSUP && p->version)
		r = copy_debug(s, k, bias, p, r, err);
	if (r == 0)
		r = learn_micro(s, p, err);
	if (r == 0 && !same)
		pyfind_cache_prove(&k->file, &p->layout);
	/* Older ones' memory does not tell whether it agrees. */
	if (r == 0 && !same && k->mapped && p->version >= 0x030d0000 && !proven_by_debug(s, k))
		pyfind_cache_keep_mapped(&k->file, &k->elf);
	/* What newer versions export nobody knows. */
	p->no_jit = elfpython_has_no_jit(&k->elf) &&
		    pylayout_find((uint16_t)(p->version >> 16));
	return r;
}
