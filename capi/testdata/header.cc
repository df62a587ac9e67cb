// The header is C++ as well.
#include "batchgemm.h"

#include <cstddef>
#include <cstdio>
#include <vector>

// The layout is a part of the binary interface.
static_assert(sizeof(bg_problem) == 176 && offsetof(bg_problem, alpha64) == 160 && offsetof(bg_problem, pointers) == 136 && offsetof(bg_problem, scale_b) == 152 && offsetof(bg_problem, m) == 8 && offsetof(bg_problem, ldc) == 72 && offsetof(bg_problem, beta) == 84 && offsetof(bg_problem, offset_b2) == 88, "");
static_assert(sizeof(bg_ragged) == 280 && offsetof(bg_ragged, beta64) == 272 && offsetof(bg_ragged, pointers) == 216 && offsetof(bg_ragged, scale_a) == 248 && offsetof(bg_ragged, len_b2) == 224 && offsetof(bg_ragged, m) == 16 && offsetof(bg_ragged, stride_b) == 112 && offsetof(bg_ragged, beta) == 156 && offsetof(bg_ragged, offset_b2) == 160, "");
static_assert(sizeof(bg_record) == 48 && offsetof(bg_record, offset_a) == 24 && offsetof(bg_record, beta) == 40, "");
static_assert(sizeof(bg_epilogue_record) == 80 && offsetof(bg_epilogue_record, offset_b2) == 48 && offsetof(bg_epilogue_record, pointers) == 72, "");
static_assert(sizeof(bg_scaled_record) == 96 && offsetof(bg_scaled_record, scale_a) == 80, "");
static_assert(sizeof(bg_double_record) == 96 && offsetof(bg_double_record, beta_low) == 84, "");
static_assert(sizeof(bg_host_operands) == 104 && offsetof(bg_host_operands, a) == 8 && offsetof(bg_host_operands, rows) == 88, "");
static_assert(sizeof(bg_operands) == 64 && offsetof(bg_operands, sizes) == 32 && offsetof(bg_operands, rows) == 56, "");

int main() {
	bg_device device = 0;
	if (bg_open("cpu", -1, &device) != BG_OK) return std::fprintf(stderr, "%s\n", bg_last_error()), 1;
	bg_problem p = bg_problem_of(1, 1, 1);
	std::vector<float> a{3}, b{4}, c(1);
	if (bg_gemm(device, &p, 1, a.data(), 1, b.data(), 1, c.data(), 1, BG_NO_TIMEOUT) != BG_OK) return 1;
	if (bg_close(device) != BG_OK || c[0] != 12) return 1;
	std::puts("ok");
}
