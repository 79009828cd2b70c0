/* SPDX-License-Identifier: MIT
 *
 * bpf_code - the few BPF instructions that our programs are made of, one by one, and the
 * system call that takes them: so few that no compiler and no loader is worth its weight.
 *
 * Sources: include/uapi/linux/bpf.h, and kernel/trace/bpf_trace.c for what a program of type
 * BPF_PROG_TYPE_PERF_EVENT may call.
 */
#ifndef BPF_CODE_H
#define BPF_CODE_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){ \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })
#define MOV(d, s) INSN(BPF_ALU64 | BPF_MOV | BPF_X, d, s, 0, 0)
#define MOVI(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define ADD(d, s) INSN(BPF_ALU64 | BPF_ADD | BPF_X, d, s, 0, 0)
#define ADDI(d, i) INSN(BPF_ALU64 | BPF_ADD | BPF_K, d, 0, 0, i)
#define SUB(d, s) INSN(BPF_ALU64 | BPF_SUB | BPF_X, d, s, 0, 0)
#define ORR(d, s) INSN(BPF_ALU64 | BPF_OR | BPF_X, d, s, 0, 0)
#define SHLI(d, i) INSN(BPF_ALU64 | BPF_LSH | BPF_K, d, 0, 0, i)
#define SHRI(d, i) INSN(BPF_ALU64 | BPF_RSH | BPF_K, d, 0, 0, i)
#define MULI(d, i) INSN(BPF_ALU64 | BPF_MUL | BPF_K, d, 0, 0, i)
/* On 32 bits; the upper half becomes 0. */
#define MULI32(d, i) INSN(BPF_ALU | BPF_MUL | BPF_K, d, 0, 0, i)
#define SHRI32(d, i) INSN(BPF_ALU | BPF_RSH | BPF_K, d, 0, 0, i)
#define MOV32(d, s) INSN(BPF_ALU | BPF_MOV | BPF_X, d, s, 0, 0)
#define LOAD(size, d, s, o) INSN(BPF_LDX | BPF_MEM | (size), d, s, o, 0)
#define STORE(size, d, o, s) INSN(BPF_STX | BPF_MEM | (size), d, s, o, 0)
/* 64 bits at @d + @o take the place of @s, as a full barrier (Linux 5.12). */
#define XCHG(d, o, s) INSN(BPF_STX | BPF_ATOMIC | BPF_DW, d, s, o, BPF_XCHG)
/* @s is added to the 64 bits there and becomes what they were, as a full barrier (5.12). */
#define FETCH_ADD(d, o, s) \
	INSN(BPF_STX | BPF_ATOMIC | BPF_DW, d, s, o, BPF_ADD | BPF_FETCH)
#define CALL(f) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, f)
#define IF(op, d, i, skip) INSN(BPF_JMP | (op) | BPF_K, d, 0, skip, i)
#define IFX(op, d, s, skip) INSN(BPF_JMP | (op) | BPF_X, d, s, skip, 0)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* A 64-bit constant takes two. */
#define WIDE_LO(d, s, v) INSN(BPF_LD | BPF_DW | BPF_IMM, d, s, 0, (int32_t)(uint32_t)(v))
#define WIDE_HI(v) INSN(0, 0, 0, 0, (int32_t)(uint32_t)((uint64_t)(v) >> 32))

/* A program in the making. */
struct bpf_code {
	struct bpf_insn insn[96];
	size_t n;
};

/* Append instructions. */
#define BPF_PUT(code, ...)                                      \
	bpf_put(code, (const struct bpf_insn[]){ __VA_ARGS__ }, \
		sizeof((const struct bpf_insn[]){ __VA_ARGS__ }) / sizeof(struct bpf_insn))
void bpf_put(struct bpf_code *c, const struct bpf_insn *insn, size_t n);

/* Append: R0 becomes the current thread's number, its process's above it, in our own PID
 * namespace. In one that has no number there the program ends with @verdict. Uses R0 to R5 and
 * the stack's first 16 bytes. 0 or -errno. */
int bpf_put_current(struct bpf_code *c, int verdict);

/* Do all threads have a number there? In the initial namespace. Elsewhere, do threads of @pid?
 * The kernel tells those of just that namespace, not of one inside it. */
bool bpf_knows_all(void);
bool bpf_knows(pid_t pid);

/* The system call: a descriptor, 0 or -errno. */
int bpf_call(int cmd, union bpf_attr *a);

/* Load @c, a program of @type. A descriptor or -errno. */
int bpf_load(const struct bpf_code *c, enum bpf_prog_type type);

/* Have @program run at a raw @tracepoint; it is borrowed no longer. A descriptor or -errno, that of
 * @program if it is one. */
int bpf_link(const char *tracepoint, int program);

/* A map of one value of @size bytes. With @at programs and we share it: it is mapped there with
 * @prot. A descriptor or -errno. */
int bpf_value(size_t size, uint32_t flags, int prot, void **at);

#endif
