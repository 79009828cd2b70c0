/* SPDX-License-Identifier: MIT
 *
 * kernel_names - a program that prints an address as "symbol+0x1/0x2 [module]".
 *
 * Sources: kernel/bpf/syscall.c (BPF_PROG_TYPE_SYSCALL), bpf_bprintf_prepare() in
 * kernel/bpf/helpers.c, symbol_string() in lib/vsprintf.c.
 */
#include "bpf/kernel_names.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "bpf/bpf_code.h"

enum { FORMAT_BYTES = 8 };

struct kernel_names_asked {
	uint64_t ip;
	char name[KERNEL_NAME_MAX];
};

/* The format must lie where nobody can write any more. 0 or -errno. */
static int write_format(int map)
{
	static const char format[FORMAT_BYTES] = "%pS";
	uint32_t key = 0;
	union bpf_attr a = { .map_fd = (uint32_t)map,
			     .key = (uintptr_t)&key,
			     .value = (uintptr_t)format };
	int r = bpf_call(BPF_MAP_UPDATE_ELEM, &a);

	a = (union bpf_attr){ .map_fd = (uint32_t)map };
	return r < 0 ? r : bpf_call(BPF_MAP_FREEZE, &a);
}

static int load_program(int asked, int format)
{
	struct bpf_code c = { 0 };

	BPF_PUT(&c, WIDE_LO(BPF_REG_4, BPF_PSEUDO_MAP_VALUE, asked), WIDE_HI(0),
		MOV(BPF_REG_1, BPF_REG_4),
		ADDI(BPF_REG_1, offsetof(struct kernel_names_asked, name)),
		MOVI(BPF_REG_2, KERNEL_NAME_MAX),
		WIDE_LO(BPF_REG_3, BPF_PSEUDO_MAP_VALUE, format), WIDE_HI(0),
		MOVI(BPF_REG_5, sizeof(uint64_t)), CALL(BPF_FUNC_snprintf), EXIT);
	return bpf_load(&c, BPF_PROG_TYPE_SYSCALL);
}

int kernel_names_init(struct kernel_names *k)
{
	void *at = NULL;
	_cleanup_close_ int asked = bpf_value(sizeof(struct kernel_names_asked), 0,
					      PROT_READ | PROT_WRITE, &at);
	_cleanup_close_ int format =
		asked < 0 ? asked : bpf_value(FORMAT_BYTES, BPF_F_RDONLY_PROG, 0, NULL);
	int r = format < 0 ? format : write_format(format);

	*k = (struct kernel_names){ .program = -1, .asked = at };
	if (r == 0)
		k->program = r = load_program(asked, format);
	if (r < 0)
		kernel_names_deinit(k);
	return MIN(r, 0);
}

void kernel_names_deinit(struct kernel_names *k)
{
	if (k->asked)
		munmap(k->asked, sizeof(*k->asked));
	if (k->program >= 0)
		close(k->program);
	*k = (struct kernel_names){ .program = -1 };
}

const char *kernel_names_at(const struct kernel_names *k, uint64_t ip)
{
	union bpf_attr a = { .test.prog_fd = (uint32_t)k->program };
	char *end;

	k->asked->ip = ip;
	if (bpf_call(BPF_PROG_TEST_RUN, &a) < 0)
		return NULL;
	end = strstr(k->asked->name, "+0x");
	if (!end)
		return "";
	*end = '\0';
	return k->asked->name;
}
