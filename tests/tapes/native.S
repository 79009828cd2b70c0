/* native.so, whose functions stand on the stacks of native.tape: each at the place that it had
 * when that was recorded, so what changes here needs a new tape. native_outer(n) calls
 * native_inner(n), whose caller only unwinding by rows finds, for it keeps no frame pointer. */
	.text
	.globl native_outer
	.type native_outer, @function
native_outer:
	.cfi_startproc
	subq $1000, %rsp
	.cfi_adjust_cfa_offset 1000
	call native_inner
	addq $1000, %rsp
	.cfi_adjust_cfa_offset -1000
	ret
	.cfi_endproc
	.size native_outer, . - native_outer
	.p2align 4
	.type native_inner, @function
native_inner:
	.cfi_startproc
	pushq %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	movq %rdi, %rbx
0:	imulq %rdi, %rbx
	subq $1, %rdi
	jnz 0b
	movq %rbx, %rax
	popq %rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size native_inner, . - native_inner
	.section .note.GNU-stack, "", @progbits
