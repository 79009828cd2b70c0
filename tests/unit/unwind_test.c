/* SPDX-License-Identifier: MIT
 *
 * unwind_test - the rules of unwinding on made-up bytes, and live stacks of this program
 * against the C library's backtrace().
 */
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "unit.h"
#include "../own_regs.h"
#include "../unwind_function.h"
#include "elf/elfimage.h"
#include "modules/space.h"
#include "sys/proc.h"
#include "sys/proc_maps.h"
#include "elf/cfi.h"
#include "unwind/expr.h"
#include "unwind/step.h"

enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, R12 = 12, RA = 16 };

#include "unwind_cases.inc.h"
#include "unwind_steps.inc.h"

#include "unwind_live.inc.h"
#include "unwind_any.inc.h"

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_expressions_of_registers),
		cmocka_unit_test(test_bad_expressions),
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_shifts),
		cmocka_unit_test(test_moves),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_bounds_of_expressions),
		cmocka_unit_test(test_register_numbers),
		cmocka_unit_test(test_lengths_of_vectors),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_rows_of_what_is_asked_for),
		cmocka_unit_test(test_popped_register),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test(test_gaps_and_overlaps),
		cmocka_unit_test(test_debug_frame),
		cmocka_unit_test(test_two_sections),
		cmocka_unit_test(test_version_4),
		cmocka_unit_test(test_factored),
		cmocka_unit_test(test_advances),
		cmocka_unit_test(test_damaged_instructions),
		cmocka_unit_test(test_aarch64),
		cmocka_unit_test(test_aarch64_known_code),
		cmocka_unit_test(test_aarch64_trampolines),
		cmocka_unit_test(test_riscv64_known_code),
		cmocka_unit_test(test_riscv64_trampolines),
		cmocka_unit_test(test_step),
		cmocka_unit_test(test_return),
		cmocka_unit_test(test_step_signal),
		cmocka_unit_test(test_step_other_register),
		cmocka_unit_test(test_second_piece),
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_live_thread),
		cmocka_unit_test(test_live_signal),
		cmocka_unit_test(test_live_aligned),
		cmocka_unit_test(test_live_cut_and_limit),
		cmocka_unit_test(test_live_guess),
		cmocka_unit_test(test_live_memory_bound),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_dropped_is_forgotten),
		cmocka_unit_test(test_rules_apart),
		cmocka_unit_test(test_trampolines),
		cmocka_unit_test(test_maps_side_by_side),
		cmocka_unit_test(test_code_without_end),
		cmocka_unit_test(test_odd_files),
		cmocka_unit_test(test_any_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
