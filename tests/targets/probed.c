/* SPDX-License-Identifier: MIT
 *
 * probed - functions that begin with each kind of instruction that the kernel treats in its
 * own way when a uprobe stands there: some it runs from a copy, of these some with a register
 * lent to it, and some it does itself.
 */
#define NAME(name, code) " " #name
#define FUNCTION(name, code)                                                    \
	__asm__(".text\n.balign 16\n.globl first_" #name "\n.type first_" #name \
		", %function\nfirst_" #name ":\n" code "\n.size first_" #name   \
		", . - first_" #name "\n");
#if defined(__x86_64__)
#define EACH(X)                                                          \
	X(push, "push %rbx\npop %rbx\nret")                              \
	X(nop, "nop\nret")                                               \
	X(endbr, "endbr64\nret")                                         \
	X(move, "mov %rdi, %rax\nret")                                   \
	X(subtract, "sub $24, %rsp\nadd $24, %rsp\nret")                 \
	X(test, "test %rdi, %rdi\nret")                                  \
	X(compare, "cmpb $0, probed_byte(%rip)\nret")                    \
	X(load, "mov probed_byte(%rip), %al\nret")                       \
	X(store, "mov %al, probed_byte(%rip)\nret")                      \
	X(address, "lea probed_byte(%rip), %rax\nret")                   \
	X(into_rdi, "mov probed_byte(%rip), %rdi\nret")                  \
	X(thread, "mov %fs:0, %rax\nret")                                \
	X(vector, "movdqu probed_byte(%rip), %xmm0\nret")                \
	X(jump, ".byte 0xe9\n.long 1f - . - 4\n.skip 200, 0x90\n1: ret") \
	X(short_jump, "jmp 1f\n.skip 100, 0x90\n1: ret")                 \
	X(branch, "jne 1f\n.skip 100, 0x90\n1: ret")                     \
	X(call, "call 1f\nret\n.skip 100, 0x90\n1: ret")                 \
	X(jump_by_memory, "jmp *probed_target(%rip)")                    \
	X(call_by_memory, "call *probed_target(%rip)\nret")              \
	X(ret, "ret")
__asm__(".text\nprobed_end: ret\n.data\n.balign 16\nprobed_byte: .quad 0, 0\nprobed_target: "
	".quad probed_end\n.text");
#elif defined(__aarch64__)
#define EACH(X)                                                          \
	X(push, "stp x29, x30, [sp, -16]!\nldp x29, x30, [sp], 16\nret") \
	X(nop, "nop\nret")                                               \
	X(landing, "hint 34\nret")                                       \
	X(signs, "hint 25\nhint 29\nret")                                \
	X(move, "mov x0, x1\nret")                                       \
	X(subtract, "sub sp, sp, 32\nadd sp, sp, 32\nret")               \
	X(compare, "cmp x0, 0\nret")                                     \
	X(page, "adrp x0, probed_byte\nret")                             \
	X(address, "adr x0, .\nret")                                     \
	X(thread, "mrs x0, tpidr_el0\nret")                              \
	X(jump, "b 1f\n.rept 100\nnop\n.endr\n1: ret")                   \
	X(branch, "cbz x0, 1f\n.rept 100\nnop\n.endr\n1: ret")           \
	X(ret, "ret")
__asm__(".data\n.balign 16\nprobed_byte: .quad 0, 0\n.text");
#else
#define EACH(X) X(move, "mv a0, a1\nret")
#endif
const char *const probed_names = EACH(NAME);
EACH(FUNCTION)
