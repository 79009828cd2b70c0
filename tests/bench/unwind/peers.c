/* SPDX-License-Identifier: MIT
 *
 * peers - libunwind's remote unwinding and libdwfl's, over recorded samples.
 */
#include <elf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <libunwind.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "bench.h"

enum { MAX_MODULES = 1024, N_REGS = 17, RIP = 16 };

/* ---- The target's files, for what lies outside of the stack ---- */

static struct module {
	uint64_t lo, hi, pgoff, bias, hdr_at; /* hdr_at: .eh_frame_hdr's vaddr */
	uint32_t hdr_rows;
	struct bytes file;
} modules[MAX_MODULES];
static size_t n_modules;

static struct module *module_at(uint64_t addr)
{
	size_t lo = 0, hi = n_modules;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (modules[mid].hi <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n_modules && modules[lo].lo <= addr ? &modules[lo] : NULL;
}

static struct bytes map_file(const struct proc_map *m)
{
	_cleanup_close_ int fd = m->path[0] == '/' ? open(m->path, O_RDONLY | O_CLOEXEC) : -1;
	struct stat st;
	void *p;

	if (strcmp(m->path, "[vdso]") == 0)
		return (struct bytes){ (void *)getauxval(AT_SYSINFO_EHDR), m->end - m->start };
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 64)
		return (struct bytes){ 0 };
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return (struct bytes){ p == MAP_FAILED ? NULL : p, (size_t)st.st_size };
}

static void module_headers(struct module *m)
{
	const Elf64_Ehdr *eh = (const void *)m->file.at;
	const Elf64_Phdr *ph = (const void *)(m->file.at + eh->e_phoff);

	for (int i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && m->pgoff >= (ph[i].p_offset & ~4095ul) &&
		    m->pgoff < ph[i].p_offset + ph[i].p_filesz && (ph[i].p_flags & PF_X))
			m->bias = m->lo - m->pgoff + ph[i].p_offset - ph[i].p_vaddr;
		if (ph[i].p_type == PT_GNU_EH_FRAME) {
			m->hdr_at = ph[i].p_vaddr;
			m->hdr_rows = load_u32(m->file.at + ph[i].p_offset + 8);
		}
	}
}

static void modules_load(const struct proc_maps *maps)
{
	for (size_t i = 0; i < maps->n && n_modules < MAX_MODULES; i++) {
		const struct proc_map *p = &maps->map[i];
		struct module *m = &modules[n_modules];

		*m = (struct module){ .lo = p->start, .hi = p->end, .pgoff = p->pgoff };
		m->file = map_file(p);
		if (!m->file.at || memcmp(m->file.at, ELFMAG, SELFMAG) != 0)
			continue;
		if (p->x)
			module_headers(m);
		n_modules++;
	}
}

static const struct bench_sample *now;

static bool read_word(uint64_t at, uint64_t *ret)
{
	const struct unwind_piece *p = &now->mem.piece[0];
	uint64_t off = at - p->at;
	const struct module *m;

	if (off < p->bytes.n && p->bytes.n - off >= 8) {
		*ret = load_u64(p->bytes.at + off);
		return true;
	}
	m = module_at(at);
	off = m ? at - m->lo + m->pgoff : 0;
	if (!m || off >= m->file.n || m->file.n - off < 8)
		return false;
	*ret = load_u64(m->file.at + off);
	return true;
}

static uint64_t reg_value(int reg)
{
	return reg == RIP ? now->regs.pc : now->regs.r[reg];
}

/* ---- libunwind ---- */

extern int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t, unw_word_t, unw_dyn_info_t *,
					      unw_proc_info_t *, int, void *);

static int u_find(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need, void *arg)
{
	const struct module *m = module_at(ip);
	unw_dyn_info_t di = { .format = UNW_INFO_FORMAT_REMOTE_TABLE };

	if (!m || !m->hdr_at)
		return -UNW_ENOINFO;
	di.start_ip = m->lo;
	di.end_ip = m->hi;
	di.u.rti.segbase = m->hdr_at + m->bias;
	di.u.rti.table_data = m->hdr_at + m->bias + 12;
	di.u.rti.table_len = m->hdr_rows;
	return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, pi, need, arg);
}

static void u_put(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
}

static int u_dyn(unw_addr_space_t as, unw_word_t *at, void *arg)
{
	return -UNW_ENOINFO;
}

static int u_mem(unw_addr_space_t as, unw_word_t at, unw_word_t *v, int write, void *arg)
{
	return !write && read_word(at, v) ? 0 : -UNW_EINVAL;
}

static int u_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *v, int write, void *arg)
{
	if (write || reg < 0 || reg >= N_REGS)
		return -UNW_EBADREG;
	*v = reg_value(reg);
	return 0;
}

static int u_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *v, int write, void *arg)
{
	return -UNW_EINVAL;
}

static int u_resume(unw_addr_space_t as, unw_cursor_t *c, void *arg)
{
	return -UNW_EINVAL;
}

static int u_name(unw_addr_space_t as, unw_word_t at, char *buf, size_t n, unw_word_t *off,
		  void *arg)
{
	return -UNW_EINVAL;
}

static unw_accessors_t accessors = { u_find, u_put,   u_dyn,	u_mem,
				     u_reg,  u_fpreg, u_resume, u_name };
static unw_addr_space_t space;

static const char *u_begin(pid_t pid, const struct proc_maps *maps)
{
	if (!n_modules)
		modules_load(maps);
	space = unw_create_addr_space(&accessors, 0);
	return space && unw_set_caching_policy(space, UNW_CACHE_GLOBAL) == 0 ? NULL :
									       "no space";
}

static size_t u_frames(const struct bench_sample *s, uint64_t *pcs, size_t cap, bool *end)
{
	unw_cursor_t c;
	size_t n = 0;
	int r;

	now = s;
	*end = false;
	if (unw_init_remote(&c, space, NULL) < 0)
		return 0;
	do {
		unw_word_t ip = 0;

		unw_get_reg(&c, UNW_REG_IP, &ip);
		if (!ip)
			break;
		pcs[n++] = ip;
		r = unw_step(&c);
		*end = r == 0;
	} while (r > 0 && n < cap);
	return n;
}

static void u_done(void)
{
	unw_destroy_addr_space(space);
}

const struct bench_peer bench_libunwind = { "libunwind", u_begin, u_frames, u_done };

/* ---- libdwfl ---- */

static Dwfl *dwfl;

static struct {
	uint64_t *pcs;
	size_t n, cap;
} found;

static pid_t d_next(Dwfl *d, void *arg, void **thread)
{
	if (*thread)
		return 0;
	*thread = (void *)(uintptr_t)now;
	return now->tid;
}

static bool d_get(Dwfl *d, pid_t tid, void *arg, void **thread)
{
	*thread = (void *)(uintptr_t)now;
	return true;
}

static bool d_mem(Dwfl *d, Dwarf_Addr at, Dwarf_Word *v, void *arg)
{
	return read_word(at, v);
}

static bool d_regs(Dwfl_Thread *thread, void *arg)
{
	Dwarf_Word w[N_REGS];

	for (int i = 0; i < N_REGS; i++)
		w[i] = reg_value(i);
	return dwfl_thread_state_registers(thread, 0, N_REGS, w);
}

static int d_frame(Dwfl_Frame *f, void *arg)
{
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(f, &pc, NULL))
		return DWARF_CB_ABORT;
	found.pcs[found.n++] = pc;
	return found.n < found.cap ? DWARF_CB_OK : DWARF_CB_ABORT;
}

static int d_no_debuginfo(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **ret)
{
	return -1;
}

static int d_find_elf(Dwfl_Module *m, void **user, const char *name, Dwarf_Addr base,
		      char **file, Elf **elf)
{
	if (name[0] != '/')
		return -1;
	*file = strdup(name);
	return open(name, O_RDONLY | O_CLOEXEC);
}

static const char *d_begin(pid_t pid, const struct proc_maps *maps)
{
	static const Dwfl_Callbacks callbacks = { .find_elf = d_find_elf,
						  .find_debuginfo = d_no_debuginfo };
	static const Dwfl_Thread_Callbacks threads = { .next_thread = d_next,
						       .get_thread = d_get,
						       .memory_read = d_mem,
						       .set_initial_registers = d_regs };
	char path[64];
	_cleanup_fclose_ FILE *f = NULL;

	if (!n_modules)
		modules_load(maps);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	dwfl = dwfl_begin(&callbacks);
	if (!f || !dwfl)
		return "no maps";
	dwfl_report_begin(dwfl);
	dwfl_linux_proc_maps_report(dwfl, f);
	dwfl_report_end(dwfl, NULL, NULL);
	return dwfl_attach_state(dwfl, NULL, pid, &threads, NULL) ? NULL : dwfl_errmsg(-1);
}

static size_t d_frames(const struct bench_sample *s, uint64_t *pcs, size_t cap, bool *end)
{
	now = s;
	found.pcs = pcs;
	found.n = 0;
	found.cap = cap;
	*end = dwfl_getthread_frames(dwfl, s->tid, d_frame, NULL) == 0;
	return found.n;
}

static void d_done(void)
{
	dwfl_end(dwfl);
}

const struct bench_peer bench_dwfl = { "libdwfl", d_begin, d_frames, d_done };
