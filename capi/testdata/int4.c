/* Weights of 4 bits: packing, buffers of words, and B with scales of groups. */
#include "check.h"

enum { K = 128, GROUP = 64, M = 3, N = 2, LD = 8, PARTS = K / GROUP };

static void test_pack(void) {
	uint8_t weights[N * K], back[N * K];
	uint32_t words[LD * K / 8], state = 1;
	for (int i = 0; i < N * K; i++) weights[i] = (uint8_t)(draw(&state) >> 28);
	/* column 1, the second panel, its third word */
	for (int i = 0; i < 8; i++) weights[K + 64 + 16 + i] = (uint8_t)i;
	OK(bg_pack_int4(weights, N, K, words));
	CHECK(words[8 * LD + 8 + 2] == 0x75316420);
	for (int i = 0; i < LD * K / 8; i++) CHECK(i % (8 * LD) < 8 * N || words[i] == 0);
	OK(bg_unpack_int4(words, N, K, back));
	CHECK(memcmp(weights, back, sizeof back) == 0);
	OK(bg_pack_int4(NULL, 0, K, NULL));
	FAILS(bg_pack_int4(weights, N, 96, words), BG_ERR_INVALID, "k 96 is no multiple of 64");
	FAILS(bg_pack_int4(weights, -1, K, words), BG_ERR_INVALID, "n -1 is not in [0, ");
	FAILS(bg_pack_int4(weights, N, -64, words), BG_ERR_INVALID, "k -64 is not in [0, ");
	FAILS(bg_pack_int4(NULL, N, K, words), BG_ERR_INVALID, "weights is NULL");
	FAILS(bg_unpack_int4(words, N, 8, back), BG_ERR_INVALID, "k 8 is no multiple of 64");
	FAILS(bg_unpack_int4(NULL, N, K, back), BG_ERR_INVALID, "words is NULL");
	FAILS(bg_unpack_int4(words, INT64_MAX, K, back), BG_ERR_INVALID, "is not in [0, ");
}

static void test_fp4(void) {
	uint8_t pairs[N * K / 2], scales[N * K / 16], back[N * K / 2], scales_back[N * K / 16];
	uint32_t words[LD * K / 8], groups[LD * (1 + K / 64)], state = 3;
	float scale = 0;
	for (int i = 0; i < N * K / 2; i++) pairs[i] = (uint8_t)(draw(&state) >> 24);
	for (int i = 0; i < N * K / 16; i++) scales[i] = (uint8_t)(draw(&state) >> 24);
	for (int i = 0; i < 4; i++) pairs[K / 2 + 40 + i] = (uint8_t)(0x10 + 0x22 * i); /* as in test_pack */
	OK(bg_pack_fp4("mxfp4", pairs, scales, 0, N, K, words, groups));
	CHECK(words[8 * LD + 8 + 2] == 0x75316420);
	CHECK(groups[1] == (scales[4] | scales[5] << 8 | scales[6] << 16 | (uint32_t)scales[7] << 24));
	OK(bg_unpack_fp4("mxfp4", words, groups, N, K, back, scales_back, &scale));
	CHECK(memcmp(pairs, back, sizeof back) == 0 && memcmp(scales, scales_back, N * K / 32) == 0);
	CHECK(scale == 1);
	OK(bg_pack_fp4("nvfp4", pairs, scales, 0.5f, N, K, words, groups));
	CHECK(groups[0] == 0x3f000000 && groups[1] == 0x3f000000 && groups[2] == 0);
	CHECK(groups[2 * LD + 1] ==
	      (scales[12] | scales[13] << 8 | scales[14] << 16 | (uint32_t)scales[15] << 24));
	OK(bg_unpack_fp4("nvfp4", words, groups, N, K, back, scales_back, NULL));
	CHECK(memcmp(pairs, back, sizeof back) == 0 && memcmp(scales, scales_back, sizeof scales) == 0);
	OK(bg_pack_fp4("nvfp4", NULL, NULL, 1, N, 0, NULL, NULL));
	FAILS(bg_pack_fp4("int4", pairs, scales, 1, N, K, words, groups), BG_ERR_INVALID,
		"type \"int4\": must be mxfp4 or nvfp4");
	FAILS(bg_pack_fp4("mxfp4", pairs, scales, 1, N, 96, words, groups), BG_ERR_INVALID,
		"k 96 is no multiple");
	FAILS(bg_pack_fp4("mxfp4", pairs, NULL, 1, N, K, words, groups), BG_ERR_INVALID, "scales is NULL");
	FAILS(bg_unpack_fp4("nvfp4", words, NULL, N, K, back, scales, NULL), BG_ERR_INVALID, "groups is NULL");
}

/* As AutoAWQ and AutoGPTQ store them, a nibble of weights and zero points after the other. */
static void test_checkpoints(void) {
	enum { COLS = 16, ALL = PARTS * COLS };
	const char *formats[3] = {"awq", "gptq", "gptq_v2"};
	const int awq[8] = {0, 2, 4, 6, 1, 3, 5, 7};
	uint8_t weights[COLS * K], zeros[ALL];
	float scales[ALL], scales_back[ALL];
	uint32_t want[COLS * K / 8], want_groups[ALL], words[COLS * K / 8], groups[ALL], state = 5;
	for (int i = 0; i < COLS * K; i++) weights[i] = (uint8_t)(draw(&state) >> 28);
	for (int i = 0; i < ALL; i++) zeros[i] = (uint8_t)(1 + draw(&state) % 15), scales[i] = (float)i / 32;
	OK(bg_pack_int4(weights, COLS, K, want));
	OK(bg_group_words(scales, zeros, ALL, want_groups));
	for (int f = 0; f < 3; f++) {
		uint32_t qweight[COLS * K / 8] = {0}, qzeros[ALL / 8] = {0}, back[COLS * K / 8], zeros_back[ALL / 8];
		for (int i = 0; i < COLS * K; i++) { /* row, column and place of a nibble of qweight */
			int row = i / COLS, word = i % COLS / 8, at = i % 8;
			if (f == 0)
				qweight[i / 8] |= (uint32_t)weights[(8 * word + awq[at]) * K + row] << 4 * at;
			else
				qweight[row / 8 * COLS + i % COLS] |= (uint32_t)weights[i % COLS * K + row] << row % 8 * 4;
		}
		for (int i = 0; i < ALL; i++)
			qzeros[i / 8] |= (uint32_t)(zeros[i / 8 * 8 + (f == 0 ? awq[i % 8] : i % 8)] - (f == 1))
				<< i % 8 * 4;
		OK(bg_pack_checkpoint(formats[f], qweight, qzeros, scales, COLS, K, GROUP, words, groups));
		CHECK(memcmp(words, want, sizeof want) == 0 && memcmp(groups, want_groups, sizeof groups) == 0);
		OK(bg_unpack_checkpoint(formats[f], words, groups, COLS, K, GROUP, back, zeros_back, scales_back));
		CHECK(memcmp(back, qweight, sizeof back) == 0 && memcmp(zeros_back, qzeros, sizeof qzeros) == 0);
		CHECK(memcmp(scales_back, scales, sizeof scales) == 0);
	}
	const uint32_t high[ALL / 8] = {15};
	OK(bg_pack_checkpoint("awq", NULL, NULL, NULL, 0, K, GROUP, NULL, NULL));
	FAILS(bg_pack_checkpoint("int4", want, high, scales, COLS, K, GROUP, words, groups), BG_ERR_INVALID,
		"format \"int4\": must be awq, gptq or gptq_v2");
	FAILS(bg_pack_checkpoint(NULL, want, high, scales, COLS, K, GROUP, words, groups), BG_ERR_INVALID,
		"format \"\"");
	FAILS(bg_pack_checkpoint("gptq", want, high, scales, COLS, K, GROUP, words, groups), BG_ERR_INVALID,
		"gptq: the zero point of group 0, column 0 is 16");
	FAILS(bg_pack_checkpoint("gptq", want, high, scales, 12, K, GROUP, words, groups), BG_ERR_INVALID,
		"n 12 is no multiple of 8");
	FAILS(bg_pack_checkpoint("gptq", want, high, scales, COLS, K, 0, words, groups), BG_ERR_INVALID,
		"group 0: must be 64 or 128");
	FAILS(bg_pack_checkpoint("gptq", want, NULL, scales, COLS, K, GROUP, words, groups), BG_ERR_INVALID,
		"qzeros is NULL");
	groups[3] &= ~15u;
	FAILS(bg_unpack_checkpoint("gptq", want, groups, COLS, K, GROUP, words, words, scales_back),
		BG_ERR_INVALID, "gptq: the zero point of group 0, column 3 is 0");
	FAILS(bg_unpack_checkpoint("awq", want, groups, COLS, K, GROUP, words, words, NULL), BG_ERR_INVALID,
		"scales is NULL");
}

static void test_groups(void) {
	/* of the third no more than 20 bits stay */
	const float scales[4] = {1.5f, -0.25f, 1 + 1.0f / 1048576, 0};
	const uint8_t zeros[4] = {8, 0, 15, 3};
	uint32_t words[4];
	float scale[4];
	uint8_t zero[4];
	OK(bg_group_words(scales, zeros, 4, words));
	CHECK(words[0] == (0x3fc00000 | 8));
	OK(bg_split_group_words(words, 4, scale, zero));
	CHECK(memcmp(zero, zeros, sizeof zeros) == 0);
	CHECK(scale[0] == 1.5f && scale[1] == -0.25f && scale[2] == 1 && scale[3] == 0);
	FAILS(bg_group_words(scales, NULL, 4, words), BG_ERR_INVALID, "zeros is NULL");
	FAILS(bg_group_words(scales, zeros, -1, words), BG_ERR_INVALID, "scales: length -1 is negative");
	FAILS(bg_split_group_words(words, 4, NULL, zero), BG_ERR_INVALID, "scales is NULL");
}

static void test_quantize(void) {
	float numbers[N * K], scales[PARTS * LD];
	uint32_t words[LD * K / 8], groups[PARTS * LD];
	uint8_t weights[N * K], zeros[PARTS * LD];
	/* each group has a scale of its own */
	for (int i = 0; i < N * K; i++) numbers[i] = (float)(1 << i / GROUP) * (float)(i % 16 - 8);
	OK(bg_quantize_int4(numbers, N, K, GROUP, words, groups));
	OK(bg_unpack_int4(words, N, K, weights));
	OK(bg_split_group_words(groups, PARTS * LD, scales, zeros));
	for (int i = 0; i < N * K; i++) {
		int g = i % K / GROUP * LD + i / K;
		CHECK(scales[g] * (float)(weights[i] - zeros[g]) == numbers[i]);
	}
	for (int i = 0; i < PARTS * LD; i++) CHECK(i % LD < N || groups[i] == 0);
	FAILS(bg_quantize_int4(numbers, N, K, 32, words, groups), BG_ERR_INVALID, "group 32: must be 64 or 128");
	FAILS(bg_quantize_int4(numbers, N, 64, 128, words, groups), BG_ERR_INVALID,
		"k 64 is no multiple of 128, the group");
	FAILS(bg_quantize_int4(numbers, -1, K, GROUP, words, groups), BG_ERR_INVALID, "n -1 is not in [0, ");
	FAILS(bg_quantize_int4(numbers, (int64_t)INT32_MAX + 1, 0, GROUP, words, groups), BG_ERR_INVALID,
		"n 2147483648 is not in [0, 2147483647]");
	OK(bg_quantize_int4(NULL, INT32_MAX, 0, GROUP, NULL, NULL));
	FAILS(bg_quantize_int4(numbers, N, K, GROUP, words, NULL), BG_ERR_INVALID, "groups is NULL");
	numbers[K + 5] = NAN;
	FAILS(bg_quantize_int4(numbers, N, K, GROUP, words, groups), BG_ERR_INVALID,
		"row 1, column 5 is NaN, for which int4 has no number");
}

static bg_buffer upload(bg_device device, const char *type, const void *from, int64_t count) {
	bg_buffer b;
	OK(bg_buffer_new_of(device, type, count, &b));
	OK(bg_buffer_write(b, 0, from, count, BG_NO_TIMEOUT));
	return b;
}

/* Words go to a buffer and come back, in parts too. */
static void test_buffer(bg_device device) {
	const uint32_t words[3] = {0x76543210, 0xfedcba98, 0x12345678}, other = 0xabcdef01;
	uint32_t back[3] = {0};
	bg_buffer b = upload(device, "int4", words, 24);
	bg_read read;
	OK(bg_buffer_write(b, 8, &other, 8, BG_NO_TIMEOUT));
	OK(bg_buffer_read(b, 8, back, 16, BG_NO_TIMEOUT));
	CHECK(back[0] == other && back[1] == words[2] && back[2] == 0);
	OK(bg_buffer_read_async(b, 16, back, 8, &read));
	OK(bg_read_wait(read, BG_NO_TIMEOUT));
	OK(bg_close(read));
	CHECK(back[0] == words[2] && back[1] == words[2]);
	FAILS(bg_buffer_write(b, 4, words, 8, 0), BG_ERR_INVALID, "offset 4 is no multiple of 8");
	FAILS(bg_buffer_read(b, 0, back, 12, 0), BG_ERR_INVALID, "count 12 is no multiple of 8");
	FAILS(bg_buffer_read(b, 16, back, 16, 0), BG_ERR_INVALID, "16 elements from 16 on, in a buffer of 24");
	FAILS(bg_buffer_read_async(b, 4, back, 8, &read), BG_ERR_INVALID, "offset 4 is no multiple of 8");
	FAILS(bg_buffer_read_async(b, 0, back, 1, &read), BG_ERR_INVALID, "count 1 is no multiple of 8");
	OK(bg_close(b));
}

/* Numbers are small and whole, so that results are exact. */
static void test_product(bg_device device) {
	uint16_t a[M * K];
	uint8_t weights[N * K], zeros[PARTS * LD] = {8, 3, [LD] = 0, 15};
	const float scales[PARTS * LD] = {1, -2, [LD] = 0.5f, 4};
	uint32_t words[LD * K / 8], groups[PARTS * LD], state = 2;
	float x[M * K], want[M * N], c[M * N];
	for (int i = 0; i < M * K; i++) {
		uint32_t bits;
		x[i] = (float)(int)(draw(&state) % 5) - 2;
		memcpy(&bits, &x[i], sizeof bits);
		a[i] = (uint16_t)(bits >> 16); /* bf16 */
	}
	for (int i = 0; i < N * K; i++) weights[i] = (uint8_t)(draw(&state) >> 28);
	for (int i = 0; i < M * N; i++) {
		want[i] = 0;
		for (int k = 0; k < K; k++) {
			int g = k / GROUP * LD + i % N;
			want[i] += x[i / N * K + k] * scales[g] * (float)(weights[i % N * K + k] - zeros[g]);
		}
	}
	OK(bg_pack_int4(weights, N, K, words));
	OK(bg_group_words(scales, zeros, PARTS * LD, groups));
	bg_problem p = {.struct_size = sizeof p, .m = M, .n = N, .k = K, .lda = K, .ldb = LD,
		.ldc = N, .alpha = 1};
	const char *options = "{\"type_a\": \"bf16\", \"type_b\": \"int4\", "
	                      "\"epilogue\": {\"scale_b\": \"group-64\"}}";
	bg_plan plan;
	bg_program program;
	OK(bg_plan_new(device, &p, 1, options, &plan));
	OK(bg_prepare(device, plan, &program));
	bg_operands o = {.struct_size = sizeof o, .a = upload(device, "bf16", a, M * K),
	                 .b = upload(device, "int4", words, LD * K),
	                 .c = upload(device, "f32", want, M * N),
	                 .rows = upload(device, "f32", groups, PARTS * LD)};
	OK(bg_run_operands(program, &o));
	OK(bg_buffer_read(o.c, 0, c, M * N, BG_NO_TIMEOUT));
	CHECK(memcmp(c, want, sizeof want) == 0);

	bg_host_operands host = {.struct_size = sizeof host, .a = a, .len_a = M * K, .b = words, .len_b = LD * K,
	                         .c = c, .len_c = M * N,
	                         .rows = groups, .len_rows = PARTS * LD};
	host.struct_size = sizeof host;
	memset(c, 0, sizeof c);
	OK(bg_gemm_operands(device, &p, 1, options, &host, BG_NO_TIMEOUT));
	CHECK(memcmp(c, want, sizeof want) == 0);
	host.len_b = 12;
	FAILS(bg_gemm_operands(device, &p, 1, options, &host, 0), BG_ERR_INVALID, "len_b 12 is no multiple of 8");
	p.k = 96;
	FAILS(bg_plan_new(device, &p, 1, options, &plan), BG_ERR_INVALID,
		"problem 0: K 96 is no multiple of the group of 64");
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", -1, &device));
	test_pack();
	test_fp4();
	test_checkpoints();
	test_groups();
	test_quantize();
	test_buffer(device);
	test_product(device);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
