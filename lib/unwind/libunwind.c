/* SPDX-License-Identifier: MIT
 *
 * libunwind - the same stacks by libunwind's remote unwinding, some fifty times slower. It
 * does not tell why a stack ended: that is BOTTOM, NO_CFI (no unwind information, or memory
 * missing), NO_MAP or LIMIT. The library is loaded by who asks for it, not by each start.
 */
#include "unwind/others.h"

#include <dlfcn.h>
#include <elf.h>
#include <libunwind.h>
#include <sys/auxv.h>

#include "arch/arch.h"

enum { N_OBJECTS = 256, MAX_LOADS = 8, HDR_BYTES = 12, RIP = 16 };

/* A mapped file: its addresses in the process less @bias are its own. */
struct object {
	pid_t pid; /* 0: not used */
	struct space_map map;
	uint64_t bias, hdr_at;
	uint32_t hdr_rows;
	size_t n_loads;
	Elf64_Phdr load[MAX_LOADS];
};

#define LIBRARY "libunwind-x86_64.so.8"
/* Its functions that we call, by their names without the prefix. */
#define LIBUNWIND_CALLS                                                        \
	X(create_addr_space)                                                   \
	X(destroy_addr_space)                                                  \
	X(set_caching_policy) X(flush_cache) X(init_remote) X(step) X(get_reg) \
		X(is_signal_frame) X(dwarf_search_unwind_table)

/* Declared by no header, and there for debuggers. */
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *,
					      unw_proc_info_t *, int, void *);

struct calls {
#define X(name) __typeof__(UNW_OBJ(name)) *name;
	LIBUNWIND_CALLS
#undef X
};

struct libunwind {
	struct calls unw;
	unw_addr_space_t as;
	pid_t pid;    /* whose frames it has cached */
	uint64_t gen; /* and of what maps */
	struct codefile *files;
	const struct space *sp;
	const struct unwind_regs *regs;
	const struct unwind_memory *mem;
	struct object object[N_OBJECTS];
	size_t next; /* to be replaced */
};

static bool is_vdso(const struct object *m)
{
	return strcmp(elfcache_path(m->map.elf), "[vdso]") == 0;
}

static bool file_read(const struct libunwind *u, const struct object *m, uint64_t offset,
		      void *buf, size_t n)
{
	const char *ours = (const char *)getauxval(AT_SYSINFO_EHDR);

	if (!is_vdso(m))
		return codefile_at(u->files, u->sp, &m->map, offset, buf, n) == 0;
	if (ours)
		memcpy(buf, ours + offset, n);
	return ours;
}

/* @vaddr: the file's own address. */
static bool object_read(const struct libunwind *u, const struct object *m, uint64_t vaddr,
			void *buf, size_t n)
{
	for (size_t i = 0; i < m->n_loads; i++) {
		uint64_t off = vaddr - m->load[i].p_vaddr;

		if (off < m->load[i].p_filesz && m->load[i].p_filesz - off >= n)
			return file_read(u, m, m->load[i].p_offset + off, buf, n);
	}
	return false;
}

static void read_headers(const struct libunwind *u, struct object *m)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (!file_read(u, m, 0, &eh, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_phentsize != sizeof(ph))
		return;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		if (!file_read(u, m, eh.e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return;
		if (ph.p_type == PT_LOAD && m->n_loads < MAX_LOADS)
			m->load[m->n_loads++] = ph;
		if (ph.p_type == PT_LOAD && (ph.p_flags & PF_X) &&
		    m->map.pgoff - (ph.p_offset & ~4095ul) < ph.p_filesz + 4096)
			m->bias = m->map.lo - m->map.pgoff + ph.p_offset - ph.p_vaddr;
		if (ph.p_type == PT_GNU_EH_FRAME)
			m->hdr_at = ph.p_vaddr;
	}
	if (m->hdr_at && !object_read(u, m, m->hdr_at + 8, &m->hdr_rows, sizeof(m->hdr_rows)))
		m->hdr_at = 0;
}

static const struct object *object_at(struct libunwind *u, uint64_t at)
{
	const struct space_map *map = space_at(u->sp, at);
	struct object *m = u->object, fresh = { .pid = u->sp->pid };

	/* Unwind information lies in other segments, which have no map here. */
	for (size_t i = 0; i < N_OBJECTS; i++)
		if (m[i].pid == u->sp->pid &&
		    at - m[i].bias - m[i].load[0].p_vaddr <
			    m[i].load[m[i].n_loads - 1].p_vaddr +
				    m[i].load[m[i].n_loads - 1].p_memsz &&
		    (!map || (map->lo == m[i].map.lo && map->ino == m[i].map.ino)))
			return &m[i];
	if (!map || !map->elf)
		return NULL;
	fresh.map = *map;
	read_headers(u, &fresh);
	if (!fresh.n_loads)
		return NULL;
	m += u->next++ % N_OBJECTS;
	*m = fresh;
	return m;
}

/* --- what libunwind asks for --- */

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need,
			  void *arg)
{
	struct libunwind *u = arg;
	const struct object *m = object_at(u, ip);
	unw_dyn_info_t di = { .format = UNW_INFO_FORMAT_REMOTE_TABLE };

	if (!m || !m->hdr_at)
		return -UNW_ENOINFO;
	di.start_ip = m->map.lo;
	di.end_ip = m->map.hi;
	di.u.rti.segbase = m->hdr_at + m->bias;
	di.u.rti.table_data = m->hdr_at + m->bias + HDR_BYTES;
	di.u.rti.table_len = m->hdr_rows;
	return u->unw.dwarf_search_unwind_table(as, ip, &di, pi, need, arg);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
}

static int no_dyn_info(unw_addr_space_t as, unw_word_t *at, void *arg)
{
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t as, unw_word_t at, unw_word_t *v, int write, void *arg)
{
	struct libunwind *u = arg;
	const struct object *m;

	if (write)
		return -UNW_EINVAL;
	for (size_t i = 0; i < UNWIND_PIECES; i++) {
		const struct unwind_piece *p = &u->mem->piece[i];
		uint64_t off = at - p->at;

		if (off < p->bytes.n && p->bytes.n - off >= sizeof(*v)) {
			*v = load_u64(p->bytes.at + off);
			return 0;
		}
	}
	m = object_at(u, at);
	return m && object_read(u, m, at - m->bias, v, sizeof(*v)) ? 0 : -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *v, int write,
		      void *arg)
{
	const struct libunwind *u = arg;

	if (write || reg < 0 || reg > RIP || (reg != RIP && !(u->regs->have >> reg & 1)))
		return -UNW_EBADREG;
	*v = reg == RIP ? u->regs->pc : u->regs->r[reg];
	return 0;
}

static int no_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *v, int write,
		    void *arg)
{
	return -UNW_EINVAL;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *c, void *arg)
{
	return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t as, unw_word_t at, char *buf, size_t n, unw_word_t *off,
		   void *arg)
{
	return -UNW_EINVAL;
}

/* --- together --- */

static void destroy(void *arg)
{
	struct libunwind *u = arg;

	if (!u)
		return;
	if (u->as)
		u->unw.destroy_addr_space(u->as);
	free(u);
}

/* False: the library is not installed. It stays loaded. */
static bool load(struct calls *ret)
{
	static const char *const names[] = {
#define X(name) "_Ux86_64_" #name,
		LIBUNWIND_CALLS
#undef X
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool all = library;

	for (size_t i = 0; all && i < ARRAY_SIZE(names); i++) {
		void *at = dlsym(library, names[i]);

		memcpy((char *)ret + i * sizeof(at), &at, sizeof(at));
		all = at;
	}
	return all;
}

static void *create(struct codefile *files)
{
	unw_accessors_t accessors = { find_proc_info, put_unwind_info, no_dyn_info, access_mem,
				      access_reg,     no_fpreg,	       no_resume,   no_name };
	struct libunwind *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->files = files;
	u->as = load(&u->unw) ? u->unw.create_addr_space(&accessors, 0) : NULL;
	if (u->as && u->unw.set_caching_policy(u->as, UNW_CACHE_GLOBAL) == 0)
		return u;
	destroy(u);
	return NULL;
}

/* What it has cached is of one process as it was. */
static void settle(struct libunwind *u)
{
	if (u->pid == u->sp->pid && u->gen == u->sp->gen)
		return;
	u->unw.flush_cache(u->as, 0, 0);
	for (size_t i = 0; i < N_OBJECTS; i++)
		if (u->object[i].pid == u->sp->pid)
			u->object[i].pid = 0;
	u->pid = u->sp->pid;
	u->gen = u->sp->gen;
}

static void put_frame(const struct calls *unw, struct unwind_stack *ret, unw_cursor_t *c)
{
	struct unwind_frame *f = &ret->frame[ret->n];
	unw_word_t pc = 0, sp = 0;

	unw->get_reg(c, UNW_REG_IP, &pc);
	unw->get_reg(c, UNW_REG_SP, &sp);
	*f = (struct unwind_frame){ .pc = pc,
				    .sp = sp,
				    .returned = ret->n && unw->is_signal_frame(c) <= 0 };
	if (ret->n)
		f[-1].cfa = sp;
	ret->n++;
}

static void stack(void *arg, const struct space *sp, const struct unwind_regs *regs,
		  const struct unwind_memory *mem, struct unwind_stack *ret)
{
	struct libunwind *u = arg;
	unw_cursor_t c;
	int r = 1;

	u->sp = sp;
	u->regs = regs;
	u->mem = mem;
	settle(u);
	ret->n = 0;
	ret->want_lo = ret->want_hi = 0;
	ret->end = UNWIND_NO_MAP;
	if (u->unw.init_remote(&c, u->as, u) < 0)
		return;
	while (r > 0 && ret->n < ret->cap) {
		put_frame(&u->unw, ret, &c);
		r = u->unw.step(&c);
	}
	/* Its own sign of a thread's start is a frame without a return address. */
	if (r == 0 && ret->n > 1 && ret->frame[ret->n - 1].pc == 0)
		ret->n--;
	ret->end = r > 0 ? UNWIND_LIMIT : r == 0 ? UNWIND_BOTTOM : UNWIND_NO_CFI;
}

const struct unwind_other unwind_other_libunwind = {
	.name = "libunwind",
	.library = LIBRARY,
	.create = create,
	.destroy = destroy,
	.stack = stack,
};
