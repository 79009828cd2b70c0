/* SPDX-License-Identifier: MIT
 *
 * uprobe: USDT notes, whole, cut and moved; symbols of this very program; and where a thread
 * stands after a uprobe.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"
#include "arch/arch.h"
#include "arch/insn.h"
#include "elf/elfprobe.h"
#include "events/uprobe.h"

static unsigned char notes[1024];
static size_t n_notes;

static void put(const void *p, size_t n)
{
	memcpy(notes + n_notes, p, n);
	n_notes += n;
	n_notes = (n_notes + 3) & ~3ul;
}

static void put_note(const char *owner, uint32_t type, uint64_t pc, uint64_t base,
		     uint64_t semaphore, const char *strings, size_t n)
{
	uint32_t head[3] = { (uint32_t)strlen(owner) + 1, 24 + (uint32_t)n, type };
	uint64_t places[3] = { pc, base, semaphore };
	unsigned char desc[200];

	memcpy(desc, places, 24);
	memcpy(desc + 24, strings, n);
	put(head, 12);
	put(owner, strlen(owner) + 1);
	put(desc, 24 + n);
}

static void probes(void **state)
{
	struct bytes left = { notes, 0 };
	struct elfprobe_note note;

	n_notes = 0;
	put_note("stapsdt", 3, 0x100, 0x1000, 0x200, "python\0gc\08@%rax", 17);
	put_note("GNU", 3, 1, 1, 1, "a\0b", 4);
	put_note("stapsdt", 4, 1, 1, 1, "a\0b", 4);
	put_note("stapsdt", 3, 1, 1, 1, "endless", 7);
	put_note("stapsdt", 3, 0x300, 0x1000, 0, "ruby\0line\0", 11);
	left.n = n_notes;
	assert_true(elfprobe_next_note(&left, 0, &note));
	assert_true(note.pc == 0x100 && note.semaphore == 0x200);
	assert_string_equal(note.provider, "python");
	assert_string_equal(note.name, "gc");
	assert_true(elfprobe_next_note(&left, 0x1800, &note)); /* moved by 0x800 */
	assert_string_equal(note.name, "line");
	assert_true(note.pc == 0xb00 && note.semaphore == 0);
	assert_false(elfprobe_next_note(&left, 0, &note));
	/* Every prefix ends, inside its bytes. */
	for (size_t n = 0; n <= n_notes; n++) {
		_cleanup_free_ unsigned char *copy = malloc(n + 1);

		memcpy(copy, notes, n);
		left = (struct bytes){ copy, n };
		while (elfprobe_next_note(&left, 0, &note))
			assert_true(note.provider[0] && note.name[0]);
	}
}

void uprobe_test_here(void);
void __attribute__((noinline)) uprobe_test_here(void)
{
	__asm__ volatile("");
}

#ifdef __x86_64__
/* Whose first two instructions are long. */
__asm__(".text\n.type uprobe_test_long, @function\nuprobe_test_long:\n"
	"movabs $0x1122334455667788, %rax\nmovl $1, 0x100(%rax,%rcx,4)\nret\n"
	".size uprobe_test_long, .-uprobe_test_long\n");
#endif

static int resolve(const char *name, struct perf_spec *s, struct err *err)
{
	const struct event_help help = { 0 };
	size_t n = 0;

	assert_int_equal(perf_names_parse(name, s, 1, &n, err), 0);
	return uprobe_resolve("/sys/bus/event_source/devices", &help, s, s, 1, &n, err);
}

static void symbols(void **state)
{
	struct perf_spec s, at, back;
	struct err err;
	int r = resolve("uprobe:/proc/self/exe:uprobe_test_here", &s, &err);

	uprobe_test_here();
	if (r == -ENOENT && strstr(err.text, "no uprobe PMU"))
		skip();
	assert_int_equal(r, 0);
	assert_true(s.config2 && s.each && s.config == 0);
	assert_int_equal(resolve("uprobe:/proc/self/exe:uprobe_test_here+0", &at, &err), 0);
	assert_int_equal(at.config2, s.config2);
	assert_int_equal(resolve("uretprobe:/proc/self/exe:uprobe_test_here", &back, &err), 0);
	assert_true(back.config2 == s.config2 && back.config == 1);
	assert_int_equal(resolve("uprobe:/proc/self/exe:uprobe_test_hree", &s, &err), -ENOENT);
	assert_non_null(strstr(err.text, "nearest: uprobe_test_here"));
	assert_int_equal(resolve("uprobe:/etc/passwd:f", &s, &err), -ENOENT);
	assert_non_null(strstr(err.text, "ELF"));
	assert_int_equal(resolve("uprobe:/no/such:f", &s, &err), -ENOENT);
	assert_int_equal(resolve("uprobe:/proc/self/exe:0xffffffffffff", &s, &err), -ENOENT);
#ifdef __x86_64__
	/* Nor within an instruction. */
	assert_int_equal(resolve("uprobe:/proc/self/exe:uprobe_test_long+1", &s, &err),
			 -ENOENT);
	assert_int_equal(resolve("uprobe:/proc/self/exe:uprobe_test_long+5", &s, &err),
			 -ENOENT);
	assert_int_equal(resolve("uprobe:/proc/self/exe:uprobe_test_long+10", &s, &err), 0);
#endif
	/* A breakpoint in data would change it, and a return is the function's alone. */
	assert_int_equal(resolve("uprobe:/proc/self/exe:0x10", &s, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no code"));
	assert_int_equal(resolve("uretprobe:/proc/self/exe:uprobe_test_here+4", &s, &err),
			 -EINVAL);
	assert_int_equal(resolve("uretprobe:/proc/self/exe:0x1001", &s, &err), -EINVAL);
}

/* The kernel gets the file that was read, whatever is at its path by then. */
static void a_file_that_is_replaced(void **state)
{
	char folder[] = "/tmp/uprobe-test-XXXXXX", name[100], *path = name + strlen("uprobe:");
	struct stat own, given;
	struct perf_spec s;
	struct err err;
	int r;

	assert_non_null(mkdtemp(folder));
	snprintf(name, sizeof(name), "uprobe:%s/program", folder);
	assert_int_equal(symlink("/proc/self/exe", path), 0);
	strcat(name, ":uprobe_test_here");
	r = resolve(name, &s, &err);
	*strrchr(name, ':') = '\0';
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	if (r == -ENOENT && strstr(err.text, "no uprobe PMU"))
		skip();
	assert_int_equal(r, 0);
	assert_int_equal(stat("/proc/self/exe", &own), 0);
	assert_int_equal(stat(s.file, &given), 0);
	assert_true(given.st_ino == own.st_ino && given.st_dev == own.st_dev);
	assert_true(s.file_ino == own.st_ino);
}

static void lengths(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} rows[] = {
		{ "\x90", 1 },
		{ "\xf3\x0f\x1e\xfa", 4 },				/* endbr64 */
		{ "\x0f\x0b", 2 },					/* ud2 */
		{ "\x48\x8b\x05\x01\x02\x03\x04", 7 },			/* mov x(%rip),%rax */
		{ "\x48\xb8\1\2\3\4\5\6\7\x08", 10 },			/* movabs */
		{ "\x66\xc7\x44\x24\x08\x01\x02", 7 },			/* movw $x,8(%rsp) */
		{ "\xf7\xc1\x01\x02\x03\x04", 6 },			/* test $x,%ecx */
		{ "\xf7\xd9", 2 },					/* neg %ecx */
		{ "\xc5\xf8\x77", 3 },					/* vzeroupper */
		{ "\xc4\xe3\x75\x18\xc0\x01", 6 },			/* vinsertf128 */
		{ "\x62\xf1\x7c\x48\x10\x84\x24\x01\x02\x03\x04", 11 }, /* vmovups */
		{ "\xc8\x01\x02\x03", 4 },				/* enter */
		{ "\x06", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned char code[32];

		memset(code, 0xcc, sizeof(code));
		memcpy(code, rows[i].bytes, MAX(rows[i].n, 1u));
		if (insn_x86_length(code, sizeof(code)) != rows[i].n)
			fail_msg("row %zu: %zu", i, insn_x86_length(code, sizeof(code)));
		for (size_t n = 0; n < rows[i].n; n++) /* cut */
			assert_int_equal(insn_x86_length(code, n), 0);
	}
}

static void jumps(void **state)
{
	static const struct row {
		const struct arch *arch;
		unsigned char code[6];
		bool is;
	} rows[] = {
		{ &arch_x86_64, { 0xe9, 1, 0, 0, 0 }, true },
		{ &arch_x86_64, { 0xeb, 1 }, true },
		{ &arch_x86_64, { 0xf2, 0xe9, 1, 0, 0, 0 }, true }, /* bnd jmp */
		{ &arch_x86_64, { 0xe8, 1, 0, 0, 0 }, true },
		{ &arch_x86_64, { 0x74, 1 }, true },
		{ &arch_x86_64, { 0x0f, 0x85, 1, 0, 0, 0 }, true },
		{ &arch_x86_64, { 0xc3 }, true },
		{ &arch_x86_64, { 0xff, 0xe0 }, true },		     /* jmp *%rax */
		{ &arch_x86_64, { 0x41, 0xff, 0xd4 }, true },	     /* call *%r12 */
		{ &arch_x86_64, { 0xff, 0x35, 1, 0, 0, 0 }, false }, /* push */
		{ &arch_x86_64, { 0x53 }, false },
		{ &arch_x86_64, { 0x0f, 0x1f, 0x40, 0 }, false },
		{ &arch_x86_64, { 0xf3, 0x0f, 0x1e, 0xfa }, false },
		{ &arch_aarch64, { 1, 0, 0, 0x14 }, true },	     /* b */
		{ &arch_aarch64, { 0xc0, 0x03, 0x5f, 0xd6 }, true }, /* ret */
		{ &arch_aarch64, { 0, 0x02, 0x1f, 0xd6 }, true },    /* br x16 */
		{ &arch_aarch64, { 0x20, 0, 0, 0xb4 }, true },	     /* cbz x0 */
		{ &arch_aarch64, { 0xfd, 0x7b, 0xbf, 0xa9 }, false },
		{ &arch_aarch64, { 0, 0, 0x3f, 0xd6 }, false }, /* blr: changes x30 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bytes code = { rows[i].code, sizeof(rows[i].code) };

		if (rows[i].arch == arch_host && insn_jumps(code) != rows[i].is)
			fail_msg("row %zu", i);
	}
	assert_false(insn_jumps((struct bytes){ 0 }));
}

struct at_row {
	int reg; /* of the registers that differ: ip, sp or a number */
	int64_t by;
	int other;
	int64_t other_by;
	bool is, jumps; /* jumps: it is, if the instruction does */
};

/* arch_at_probe() */
static void stands_at_the_probe(void **state)
{
	int ip = arch_host->ip, sp = arch_host->sp, copy = arch_host->copy_align;
	int64_t page = 0x7f0000 + 4096 - 0x345, behind = arch_host->return_max;
	const bool lends = arch_host->copy_regs;
	const struct at_row rows[] = {
		{ ip, 4, sp, 0, true }, /* a nop */
		{ ip, 4, 5, 3, true },	/* an instruction that sets a register */
		{ ip, 64, sp, 0, 64 % copy == 0, true }, /* further than an instruction */
		{ ip, 0x7f0100, sp, 0, true },		 /* the kernel's copy */
		{ ip, 0x7f0100, sp, -8, false, true },	 /* called */
		{ ip, -0x100, sp, 8, false, true },	 /* returned */
		{ ip, -0x100, sp, -16, false },
		{ ip, -0x100, sp, 16, false },
		{ ip, -0x100, 5, 1, false },
		{ ip, 0x7f0100, 5, 1, false },
		{ ip, 0x7f0100, 5, 0x400000 + 7, lends }, /* for what lies relative to it */
		{ ip, 0x7f0100, 5, 0x400000 + 16, false },
		{ ip, 0x7f0100, 5, 0x400000, false },
		{ ip, 0x7f0100, 0, 0x400000 + 7, false },
		{ ip, 0x7f0000 + 331, sp, 0, false, true },
		{ ip, page + behind - 1, sp, -24, true }, /* a trampoline */
		{ ip, page + behind - 1, sp, -240, false },
		{ ip, page + behind, sp, -24, false },
		{ ip, -4, sp, 0, copy == 4, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t a[ARCH_MAX_REGS] = { 0 }, b[ARCH_MAX_REGS];

		a[ip] = 0x400000;
		a[sp] = 0x7ffe0000;
		if (rows[i].by > 0x7f0400)
			a[ip] += 0x345;
		memcpy(b, a, sizeof(b));
		b[rows[i].reg] += (uint64_t)rows[i].by;
		b[rows[i].other] += (uint64_t)rows[i].other_by;
		for (int jumps = 0; jumps < 2; jumps++)
			if (arch_at_probe(a, b, jumps) !=
			    (rows[i].is || (jumps && rows[i].jumps)))
				fail_msg("row %zu, %d", i, jumps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probes),
		cmocka_unit_test(symbols),
		cmocka_unit_test(a_file_that_is_replaced),
		cmocka_unit_test(lengths),
		cmocka_unit_test(jumps),
		cmocka_unit_test(stands_at_the_probe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
