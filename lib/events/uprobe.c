/* SPDX-License-Identifier: MIT */
#include "events/uprobe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "arch/insn.h"
#include "elf/elffunc.h"
#include "base/nearest.h"
#include "events/pmu.h"
#include "sys/proc_maps.h"
#include "sys/rootfile.h"

enum { NT_STAPSDT = 3 };

/* --- files --- */

bool uprobe_offset(const struct elfimage *im, uint64_t vaddr, bool code, uint64_t *ret)
{
	for (size_t i = 0; i < im->n_ph; i++) {
		const Elf64_Phdr *p = &im->ph[i];

		if (p->p_type == PT_LOAD && vaddr - p->p_vaddr < p->p_filesz &&
		    (!code || p->p_flags & PF_X)) {
			*ret = vaddr - p->p_vaddr + p->p_offset;
			return true;
		}
	}
	return false;
}

static int open_file(const struct perf_spec *s, const char *path, struct elfimage *im,
		     int *ret, struct err *err)
{
	int r = *ret = rootfile_open(-1, path);

	if (r >= 0)
		r = elfimage_init(im, *ret, (struct bytes){ 0 });
	if (r == -ENOEXEC)
		return err_set(err, -ENOENT, "event '%s': '%s' is no 64-bit ELF file", s->name,
			       path);
	if (r == -EACCES)
		return err_set(err, r, "event '%s': '%s' may not be read", s->name, path);
	return r < 0 ? err_set(err, -ENOENT, "event '%s': '%s': %s", s->name, path,
			       strerror(-r)) :
		       0;
}

/* --- functions --- */

struct wanted {
	const char *name;
	struct elffunc found; /* "": none */
	uint64_t other;	      /* another function of that name; 0: none */
};

/* The version that programs get comes before those of old programs. */
static void take_wanted(void *arg, const struct elffunc *symbol)
{
	struct wanted *w = arg;

	if (strcmp(symbol->name, w->name) != 0)
		return;
	if (!*w->found.name || (w->found.old && !symbol->old)) {
		w->found = *symbol;
		w->other = 0;
	} else if (w->found.old == symbol->old && w->found.vaddr != symbol->vaddr) {
		w->other = symbol->vaddr;
	}
}

static void offer(void *near, const struct elffunc *symbol)
{
	nearest_offer(near, symbol->name);
}

static int find_function(const struct perf_spec *s, const struct elfimage *im,
			 const char *name, uint64_t *ret, struct err *err)
{
	struct nearest near = { .want = name };
	struct wanted w = { .name = name };
	char text[512];

	elffunc_each(im, take_wanted, &w);
	if (!*w.found.name) {
		elffunc_each(im, offer, &near);
		return err_set(err, -ENOENT, "event '%s': the file has no function '%s'%s",
			       s->name, name, nearest_text(&near, text, sizeof(text)));
	}
	if (w.other)
		return err_set(
			err, -EINVAL,
			"event '%s': the file has several functions '%s', at 0x%llx and "
			"0x%llx for example; name one by its address",
			s->name, name, (unsigned long long)w.found.vaddr,
			(unsigned long long)w.other);
	if (w.found.chosen)
		return err_set(err, -ENOENT,
			       "event '%s': '%s' is one of several functions, chosen for this "
			       "processor as programs start; name that one, or its address",
			       s->name, name);
	*ret = w.found.vaddr;
	return 0;
}

struct cover {
	uint64_t vaddr, start; /* what is nearest below it; 0: nothing */
};

static void take_below(struct cover *c, uint64_t start)
{
	if (start <= c->vaddr && start > c->start)
		c->start = start;
}

static void take_function(void *cover, const struct elffunc *symbol)
{
	take_below(cover, symbol->vaddr);
}

/* Of the function that @vaddr is in; else of the section. */
static uint64_t start_below(const struct elfimage *im, uint64_t vaddr)
{
	struct cover c = { .vaddr = vaddr };

	for (size_t i = 0; i < im->n_sh; i++)
		if (im->sh[i].sh_flags & SHF_EXECINSTR)
			take_below(&c, im->sh[i].sh_addr);
	elffunc_each(im, take_function, &c);
	return c.start;
}

/* A breakpoint within an instruction would make another one of it. */
static bool is_instruction(const struct elfimage *im, uint64_t vaddr)
{
	uint64_t start = start_below(im, vaddr), offset;
	_cleanup_bytes_ struct bytes code = { 0 };

	if (!start || !uprobe_offset(im, start, true, &offset))
		return false;
	code = elfimage_part(im, offset, vaddr - start + 1);
	return insn_begins(code, vaddr - start);
}

/* SYMBOL[+OFFSET], or an address. */
static int find_place(const struct perf_spec *s, const struct elfimage *im, char *symbol,
		      uint64_t *ret, struct err *err)
{
	char *plus = strrchr(symbol, '+'), *end = NULL;
	uint64_t more = plus ? strtoull(plus + 1, &end, 0) : 0;
	int r = 0;

	if (plus && (*end || end == plus + 1))
		return err_set(err, -EINVAL, "event '%s': '%s' is no offset", s->name,
			       plus + 1);
	if (plus)
		*plus = '\0';
	if (!strncmp(symbol, "0x", 2)) {
		*ret = strtoull(symbol, &end, 0);
		if (*end)
			return err_set(err, -EINVAL, "event '%s': '%s' is no address", s->name,
				       symbol);
	} else {
		r = find_function(s, im, symbol, ret, err);
	}
	if (r < 0)
		return r;
	*ret += more;
	/* Elsewhere in a function the return address is not where the kernel takes it. */
	if (s->kind == PERF_KIND_URETPROBE && start_below(im, *ret) != *ret)
		return err_set(err, -EINVAL, "event '%s': a return is named by its function",
			       s->name);
	if ((more || *symbol == '0') && !is_instruction(im, *ret))
		return err_set(err, -ENOENT,
			       "event '%s': no code, or no instruction begins there", s->name);
	return 0;
}

/* --- the event --- */

static bool jumps_at(const struct elfimage *im, uint64_t place)
{
	enum { LONGEST = 15 };
	_cleanup_bytes_ struct bytes code = elfimage_part(im, place, LONGEST);

	return code.n && insn_jumps(code);
}

/* @path, that of @im, must be absolute: it is opened again for each thread. */
static int complete(const char *devices, struct perf_spec *s, const struct elfimage *im,
		    const char *path, uint64_t place, uint64_t counter, struct err *err)
{
	bool returns = s->kind == PERF_KIND_URETPROBE;

	if (pmu_type(devices, "uprobe", &s->type) < 0)
		return err_set(err, -ENOENT,
			       "event '%s': this kernel has no uprobe PMU (Linux 4.17 with "
			       "CONFIG_UPROBE_EVENTS)",
			       s->name);
	if (strlen(path) >= sizeof(s->file))
		return err_set(err, -EINVAL, "event '%s': the file's path is too long",
			       s->name);
	if (returns && pmu_set(devices, "uprobe", "retprobe", 1, s) < 0)
		return err_set(err, -ENOENT, "event '%s': this kernel has no uretprobes",
			       s->name);
	if (counter && pmu_set(devices, "uprobe", "ref_ctr_offset", counter, s) < 0)
		return err_set(err, -ENOENT,
			       "event '%s': this kernel can't switch on probes with a "
			       "semaphore (Linux 4.20)",
			       s->name);
	snprintf(s->file, sizeof(s->file), "%s", path);
	s->config2 = place;
	s->jumps = !returns && jumps_at(im, place);
	s->each = true;
	s->kind = PERF_KIND_READY;
	return 0;
}

/* malloc'ed. Not by realpath() where it is absolute: /proc/PID/root leads elsewhere than its
 * text. NULL: there is none. */
static char *absolute(const char *path)
{
	return *path == '/' ? strdup(path) : realpath(path, NULL);
}

/* Splits "FILE:LAST" at the last colon. */
static char *split_last(char *text)
{
	char *colon = strrchr(text, ':');

	*colon = '\0';
	return colon + 1;
}

int uprobe_resolve(const char *devices, struct perf_spec *s, struct err *err)
{
	_cleanup_free_ char *path = NULL;
	struct elfimage im = { 0 };
	uint64_t vaddr = 0, place = 0;
	char file[256], *symbol;
	int fd = -1, r;

	snprintf(file, sizeof(file), "%s", strchr(s->name, ':') + 1);
	symbol = split_last(file);
	path = absolute(file);
	r = open_file(s, path ? path : file, &im, &fd, err);
	if (r == 0)
		r = find_place(s, &im, symbol, &vaddr, err);
	if (r == 0 && !uprobe_offset(&im, vaddr, true, &place))
		r = err_set(err, -ENOENT, "event '%s': there is no code at 0x%llx of the file",
			    s->name, (unsigned long long)vaddr);
	if (r == 0)
		r = complete(devices, s, &im, path, place, 0, err);
	elfimage_deinit(&im);
	base_close(&fd);
	return r;
}

/* --- USDT --- */

/* A string that ends before @end; what is behind it. NULL: it does not. */
static const char *take_name(const char **s, const char *end)
{
	const char *name = *s, *nul = memchr(name, '\0', (size_t)(end - name));

	*s = nul ? nul + 1 : end;
	return nul ? name : NULL;
}

bool uprobe_next_note(struct bytes *notes, uint64_t base, struct uprobe_note *ret)
{
	Elf64_Nhdr nh;

	while (notes->n >= sizeof(nh)) {
		const unsigned char *owner = notes->at + sizeof(nh);
		uint64_t desc, next;
		const char *s, *end;

		memcpy(&nh, notes->at, sizeof(nh));
		desc = sizeof(nh) + (((uint64_t)nh.n_namesz + 3) & ~UINT64_C(3));
		next = desc + (((uint64_t)nh.n_descsz + 3) & ~UINT64_C(3));
		if (desc + nh.n_descsz > notes->n)
			break;
		s = (const char *)notes->at + desc;
		end = s + nh.n_descsz;
		next = MIN(next, notes->n);
		notes->at += next;
		notes->n -= next;
		if (nh.n_type != NT_STAPSDT || nh.n_namesz != 8 || nh.n_descsz < 24 ||
		    memcmp(owner, "stapsdt", 8) != 0)
			continue;
		ret->pc = load_u64(s);
		ret->semaphore = load_u64(s + 16);
		if (base) { /* prelink has moved the file's addresses */
			ret->pc += base - load_u64(s + 8);
			ret->semaphore += ret->semaphore ? base - load_u64(s + 8) : 0;
		}
		s += 24;
		ret->provider = take_name(&s, end);
		ret->name = take_name(&s, end);
		if (ret->provider && ret->name)
			return true;
	}
	return false;
}

struct usdt {
	const char *devices, *want; /* "PROVIDER:NAME" */
	const struct perf_spec *like;
	struct nearest near;
	struct perf_spec *ret;
	size_t cap, n;
};

static int add_place(struct usdt *u, const struct elfimage *im, const char *path,
		     const struct uprobe_note *note, struct err *err)
{
	struct perf_spec s = *u->like;
	uint64_t place, counter = 0;

	if (!uprobe_offset(im, note->pc, true, &place) ||
	    (note->semaphore && !uprobe_offset(im, note->semaphore, false, &counter)))
		return 0; /* damaged */
	if (u->n == u->cap)
		return err_set(err, -EINVAL, "event '%s': too many places; at most %zu events",
			       s.name, u->cap);
	u->ret[u->n++] = s;
	return complete(u->devices, &u->ret[u->n - 1], im, path, place, counter, err);
}

static int add_places(struct usdt *u, const struct elfimage *im, const char *path,
		      struct err *err)
{
	const Elf64_Shdr *base = elfimage_section(im, ".stapsdt.base");
	_cleanup_bytes_ struct bytes all =
		elfimage_bytes(im, elfimage_section(im, ".note.stapsdt"));
	struct bytes left = all;
	struct uprobe_note note;
	char name[256];
	int r = 0;

	while (r == 0 && uprobe_next_note(&left, base ? base->sh_addr : 0, &note)) {
		snprintf(name, sizeof(name), "%.120s:%.120s", note.provider, note.name);
		if (!strcmp(name, u->want))
			r = add_place(u, im, path, &note, err);
		else
			nearest_offer(&u->near, name);
	}
	return r;
}

static int look_in(struct usdt *u, const char *path, struct err *err)
{
	struct elfimage im = { 0 };
	int fd = -1, r = open_file(u->like, path, &im, &fd, err);

	if (r == 0)
		r = add_places(u, &im, path, err);
	elfimage_deinit(&im);
	base_close(&fd);
	return r;
}

/* The files whose code @pid has mapped, as it sees them. */
static int look_in_process(struct usdt *u, pid_t pid, struct err *err)
{
	struct proc_maps maps;
	const char *last = "";
	size_t before;
	int r = proc_maps_read(&maps, pid);

	if (r < 0)
		return err_set(err, r, "process %d: %s", pid, strerror(-r));
	for (size_t i = 0; r == 0 && i < maps.n; i++) {
		const struct proc_map *m = &maps.map[i];
		char path[1200];
		struct stat st;

		if (!m->x || *m->path != '/' || !strcmp(m->path, last))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, m->path);
		if (m->deleted || stat(path, &st) < 0 || st.st_ino != m->ino)
			snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid,
				 (unsigned long long)m->start, (unsigned long long)m->end);
		last = m->path;
		before = u->n;
		r = look_in(u, path, err);
		if (u->n == before) /* no ELF file */
			r = 0;
	}
	proc_maps_deinit(&maps);
	return r;
}

int uprobe_usdt(const char *devices, const struct perf_spec *s, pid_t pid,
		struct perf_spec *ret, size_t cap, size_t *n, struct err *err)
{
	struct usdt u = { .devices = devices, .like = s, .ret = ret, .cap = cap };
	char file[256], text[512], *probe, *colon;
	int r;

	snprintf(file, sizeof(file), "%s", s->name + strlen("usdt:"));
	probe = split_last(file);
	colon = strrchr(file, ':'); /* FILE:PROVIDER */
	snprintf(text, sizeof(text), "%.200s:%.200s", colon ? colon + 1 : file, probe);
	u.want = u.near.want = text;
	if (colon) {
		_cleanup_free_ char *path = NULL;

		*colon = '\0';
		path = absolute(file);
		r = look_in(&u, path ? path : file, err);
	} else if (pid) {
		r = look_in_process(&u, pid, err);
	} else {
		r = err_set(err, -EINVAL,
			    "event '%s': name the file, usdt:FILE:PROVIDER:NAME, for the "
			    "program has none yet",
			    s->name);
	}
	*n = u.n;
	if (r == 0 && !u.n) {
		char near[512];

		r = err_set(err, -ENOENT,
			    "event '%s': %s has no such probe%s (not every "
			    "Python is built with them: ./configure --with-dtrace)",
			    s->name, colon ? file : "the process",
			    nearest_text(&u.near, near, sizeof(near)));
	}
	return r;
}
