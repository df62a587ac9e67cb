/* A layer of experts: its choices, its rows and their sums. */
#include "check.h"

enum { TOKENS = 4, TOP_K = 2, EXPERTS = 3, HIDDEN = 2, N = TOKENS * TOP_K };
enum { FIRST = 64, WORDS = FIRST + 3 * N };

static const int64_t index64[N] = {2, 0, -1, 2, 0, 3, INT64_MIN, 1ll << 32};
static const float weights[N] = {0.25f, 0.5f, 1, 2, 3, 4, 5, 6};

static bg_buffer words_of(bg_device device, const void *from, int64_t count) {
	bg_buffer b;
	OK(bg_buffer_new(device, count, &b));
	if (from) OK(bg_buffer_write(b, 0, from, count, BG_NO_TIMEOUT));
	return b;
}

static bg_choices choices(void) {
	bg_choices c = {.struct_size = sizeof c, .flags = BG_INDEX_64, .tokens = TOKENS, .top_k = TOP_K,
		.experts = EXPERTS};
	return c;
}

/* The rows are choices 1 and 4 of expert 0, and 0 and 3 of expert 2. */
static void check_routed(const int32_t *words) {
	const int32_t ends[EXPERTS] = {2, 2, 4}, rows[4] = {1, 4, 0, 3};
	for (int e = 0; e < EXPERTS; e++) CHECK(words[e] == ends[e]);
	for (int i = 0; i < 4; i++) {
		float weight;
		memcpy(&weight, &words[FIRST + 2 * N + i], 4);
		CHECK(words[FIRST + i] == rows[i] / TOP_K && words[FIRST + N + i] == rows[i]);
		CHECK(weight == weights[rows[i]]);
	}
	CHECK(words[EXPERTS] == -7 && words[FIRST + 4] == -7);
}

static void test_steps(bg_device device) {
	bg_choices c = choices();
	bg_program routing, combine;
	OK(bg_prepare_routing(device, &c, NULL, &routing));
	OK(bg_prepare_combine(device, &c, HIDDEN, "f32", &combine));
	int32_t routed[WORDS];
	float rows[N * HIDDEN], sums[TOKENS * HIDDEN];
	const float want[TOKENS * HIDDEN] = {0 + 2, 1 + 3, 6, 7, 8, 9, 0, 0};
	for (int i = 0; i < WORDS; i++) routed[i] = -7;
	for (int i = 0; i < N * HIDDEN; i++) rows[i] = i;
	bg_buffer index = words_of(device, index64, 2 * N), w = words_of(device, weights, N),
		out = words_of(device, routed, WORDS), r = words_of(device, rows, N * HIDDEN),
		y = words_of(device, NULL, TOKENS * HIDDEN);
	bg_operands o = {.struct_size = sizeof o, .a = w, .c = out, .sizes = index};
	OK(bg_run_operands(routing, &o));
	OK(bg_buffer_read(out, 0, routed, WORDS, 60000));
	check_routed(routed);
	bg_operands p = {.struct_size = sizeof p, .a = r, .c = y, .sizes = index};
	OK(bg_run_operands(combine, &p));
	OK(bg_buffer_read(y, 0, sums, TOKENS * HIDDEN, 60000));
	for (int i = 0; i < TOKENS * HIDDEN; i++) CHECK(sums[i] == want[i]);
	OK(bg_program_status(routing, BG_NO_TIMEOUT));

	o.b = w;
	FAILS(bg_run_operands(routing, &o), BG_ERR_INVALID, "B is not nil");
	o.b = 0, o.sizes = 0;
	FAILS(bg_run_operands(routing, &o), BG_ERR_INVALID, "Sizes is nil");
	o.sizes = w;
	FAILS(bg_run_operands(routing, &o), BG_ERR_INVALID, "Sizes has 8 elements, the plan needs 16");
	FAILS(bg_update(routing, NULL, 0), BG_ERR_INVALID, "update");
}

/* In memory of the caller, of the first two tokens. */
static void test_at(bg_device device) {
	bg_choices c = choices();
	bg_program routing;
	OK(bg_prepare_routing(device, &c, NULL, &routing));
	static int32_t routed[WORDS] __attribute__((aligned(16)));
	static int64_t index[N] __attribute__((aligned(16)));
	static float own[N] __attribute__((aligned(16)));
	memcpy(index, index64, sizeof index);
	memcpy(own, weights, sizeof own);
	bg_addresses a = {.struct_size = sizeof a, .a = (uintptr_t)own, .c = (uintptr_t)routed,
		.sizes = (uintptr_t)index, .extent = 2};
	OK(bg_run_at(routing, 0, &a));
	OK(bg_wait(device, BG_NO_TIMEOUT));
	CHECK(routed[0] == 1 && routed[1] == 1 && routed[2] == 3);
	CHECK(routed[FIRST + N] == 1 && routed[FIRST + N + 1] == 0 && routed[FIRST + N + 2] == 3);
	a.extent = TOKENS + 1;
	FAILS(bg_run_at(routing, 0, &a), BG_ERR_INVALID, "extent 5 is not in [0, 4]");
	a.b = a.a, a.extent = 0;
	FAILS(bg_run_at(routing, 0, &a), BG_ERR_INVALID, "B is not 0");
}

/* What is between the products, and its gradients: pre is 3 and 5 in each row, there is no activation, and h
 * is 15. One call routes and does both. */
static void test_gate(bg_device device) {
	bg_choices c = choices();
	bg_gate g = {.struct_size = sizeof g, .flags = BG_GATED, .intermediate = 1};
	bg_program programs[3];
	OK(bg_prepare_routing(device, &c, NULL, &programs[0]));
	OK(bg_prepare_gate(device, &c, &g, NULL, &programs[1]));
	OK(bg_prepare_gate_backward(device, &c, &g, NULL, &programs[2]));
	enum { HW = 2 * N, DWEIGHTS = HW + N, BLOCK = DWEIGHTS + N };
	static int32_t routed[WORDS] __attribute__((aligned(16)));
	static int64_t index[N] __attribute__((aligned(16)));
	static float own[N] __attribute__((aligned(16))), pre[2 * N] __attribute__((aligned(16))),
		dh[N] __attribute__((aligned(16))), h[N] __attribute__((aligned(16))),
		block[BLOCK] __attribute__((aligned(16)));
	memcpy(index, index64, sizeof index);
	memcpy(own, weights, sizeof own);
	for (int i = 0; i < N; i++) pre[2 * i] = 3, pre[2 * i + 1] = 5, dh[i] = 2, h[i] = -7;
	for (int i = 0; i < BLOCK; i++) block[i] = -7;
	bg_addresses at[3] = {
		{.struct_size = sizeof *at, .a = (uintptr_t)own, .c = (uintptr_t)routed, .sizes = (uintptr_t)index},
		{.struct_size = sizeof *at, .a = (uintptr_t)pre, .c = (uintptr_t)h, .sizes = (uintptr_t)routed},
		{.struct_size = sizeof *at, .a = (uintptr_t)pre, .b = (uintptr_t)dh, .c = (uintptr_t)block,
			.sizes = (uintptr_t)routed, .rows = (uintptr_t)index}};
	OK(bg_run_all_at(0, programs, at, 3));
	OK(bg_wait(device, BG_NO_TIMEOUT));
	const int slots[4] = {1, 4, 0, 3};
	for (int r = 0; r < N; r++) {
		const float w = weights[slots[r % 4]];
		CHECK(h[r] == (r < 4 ? 15 : -7) && block[HW + r] == (r < 4 ? 15 * w : -7));
		CHECK(block[2 * r] == (r < 4 ? 2 * 5 * w : -7) && block[2 * r + 1] == (r < 4 ? 2 * 3 * w : -7));
		CHECK(block[DWEIGHTS + r] == (r == 0 || r == 1 || r == 3 || r == 4 ? 30 : 0));
	}
	h[0] = -7, at[2].rows = 0;
	FAILS(bg_run_all_at(0, programs, at, 3), BG_ERR_INVALID, "run 2: Rows is 0");
	OK(bg_wait(device, BG_NO_TIMEOUT));
	CHECK(h[0] == -7);
	at[1].struct_size = 8;
	FAILS(bg_run_all_at(0, programs, at, 3), BG_ERR_INVALID, "addresses 1: struct_size 8");
	FAILS(bg_run_all_at(0, NULL, at, 3), BG_ERR_INVALID, "programs is NULL");
	FAILS(bg_run_all_at(0, programs, NULL, 3), BG_ERR_INVALID, "addresses is NULL");
	OK(bg_run_all_at(0, NULL, NULL, 0));
	g.activation = "tanh";
	FAILS(bg_prepare_gate(device, &c, &g, NULL, programs), BG_ERR_INVALID, "unknown activation \"tanh\"");
	g.activation = NULL, g.flags = 8;
	FAILS(bg_prepare_gate(device, &c, &g, NULL, programs), BG_ERR_INVALID, "flags 0x8");
	g.flags = BG_INTERLEAVED;
	FAILS(bg_prepare_gate(device, &c, &g, NULL, programs), BG_ERR_INVALID, "there is no up");
	FAILS(bg_prepare_gate(device, &c, NULL, NULL, programs), BG_ERR_INVALID, "gate is NULL");
}

/* Rows of 4 and 2 become 127 and 63.5 of a scale, which rounds to 64, and the scale is after two words. */
static void test_quantized(bg_device device) {
	bg_choices c = {.struct_size = sizeof c, .tokens = 2, .top_k = 1, .experts = 1};
	bg_gate g = {.struct_size = sizeof g, .flags = BG_ALL_ROWS, .intermediate = 2, .type_c = "int8",
		.scale = "row", .scales = 2};
	bg_program p;
	OK(bg_prepare_gate(device, &c, &g, NULL, &p));
	static const float pre[4] = {4, 2, -2, 4};
	static float words[4] = {CANARY, CANARY};
	int8_t bytes[4];
	bg_operands o = {.struct_size = sizeof o, .a = words_of(device, pre, 4),
		.sizes = words_of(device, words, 4)};
	OK(bg_buffer_new_of(device, "int8", 4, &o.c));
	OK(bg_run_operands(p, &o));
	OK(bg_buffer_read(o.sizes, 0, words, 4, 60000));
	OK(bg_buffer_read(o.c, 0, bytes, 4, 60000));
	CHECK(bytes[0] == 127 && bytes[1] == 64 && bytes[2] == -64 && bytes[3] == 127);
	CHECK(words[0] == CANARY && words[1] == CANARY && words[2] == 4 * (1 / 127.0f) && words[3] == words[2]);
	g.scale = "block";
	FAILS(bg_prepare_gate(device, &c, &g, NULL, &p), BG_ERR_INVALID, "cannot be of int8");
	g.scale = NULL;
	FAILS(bg_prepare_gate(device, &c, &g, NULL, &p), BG_ERR_INVALID, "TypeC or Scales is set");
	g.struct_size = 24;
	OK(bg_prepare_gate(device, &c, &g, NULL, &p)); /* as of the first version */
}

static void test_mistakes(bg_device device) {
	bg_choices c = choices();
	bg_program p;
	FAILS(bg_prepare_routing(device, NULL, NULL, &p), BG_ERR_INVALID, "choices is NULL");
	FAILS(bg_prepare_routing(device, &c, NULL, NULL), BG_ERR_INVALID, "program is NULL");
	FAILS(bg_prepare_routing(device, &c, "int8", &p), BG_ERR_INVALID, "weights cannot be of int8");
	FAILS(bg_prepare_combine(device, &c, -1, NULL, &p), BG_ERR_INVALID, "-1 columns");
	FAILS(bg_prepare_combine(device, &c, 1, "int4", &p), BG_ERR_INVALID, "rows cannot be of int4");
	c.top_k = 17;
	FAILS(bg_prepare_routing(device, &c, NULL, &p), BG_ERR_INVALID, "17 choices of a token");
	c = choices(), c.experts = 4097;
	FAILS(bg_prepare_combine(device, &c, 1, NULL, &p), BG_ERR_INVALID, "4097 experts");
	c = choices(), c.tokens = -1;
	FAILS(bg_prepare_combine(device, &c, 1, NULL, &p), BG_ERR_INVALID, "-1 tokens");
	c = choices(), c.flags = 2;
	FAILS(bg_prepare_routing(device, &c, NULL, &p), BG_ERR_INVALID, "flags 0x2");
	c = choices(), c.struct_size = 8;
	FAILS(bg_prepare_routing(device, &c, NULL, &p), BG_ERR_INVALID, "sizeof(bg_choices), 32 here");
}

enum { INNER = 1 };

static bg_experts layer(void) {
	bg_experts x = {.struct_size = sizeof x, .flags = BG_TRANS_B | BG_INDEX_64, .tokens = TOKENS,
		.top_k = TOP_K, .experts = EXPERTS, .hidden = HIDDEN, .intermediate = INNER};
	return x;
}

/* Expert e multiplies the sums of both elements, once by e + 1 and once by 2, and down gives 1 and 10 times
 * that. */
static const float gate_up[EXPERTS * 2 * INNER * HIDDEN] = {1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 2, 2};
static const float down[EXPERTS * HIDDEN * INNER] = {1, 10, 1, 10, 1, 10};
static const float tokens[TOKENS * HIDDEN] = {1, 0, 1, 1, 2, 1, 5, 5};

static void want_of(float *y) {
	for (int t = 0; t < TOKENS; t++) {
		y[2 * t] = y[2 * t + 1] = 0;
		for (int j = 0; j < TOP_K; j++) {
			int64_t e = index64[t * TOP_K + j];
			if (e < 0 || e >= EXPERTS) continue;
			float s = tokens[2 * t] + tokens[2 * t + 1], z = weights[t * TOP_K + j] * (e + 1) * s * 2 * s;
			y[2 * t] += z;
			y[2 * t + 1] += 10 * z;
		}
	}
}

static void test_layer(bg_device device) {
	bg_experts x = layer();
	bg_program p;
	OK(bg_prepare_experts(device, &x, NULL, "{\"epilogue\": {\"gated\": true}}", &p));
	float want[TOKENS * HIDDEN], got[TOKENS * HIDDEN];
	want_of(want);
	bg_expert_operands o = {.struct_size = sizeof o, .x = words_of(device, tokens, TOKENS * HIDDEN),
		.y = words_of(device, NULL, TOKENS * HIDDEN), .index = words_of(device, index64, 2 * N),
		.weights = words_of(device, weights, N), .gate_up = words_of(device, gate_up, EXPERTS * 2 * HIDDEN),
		.down = words_of(device, down, EXPERTS * HIDDEN)};
	OK(bg_run_experts(p, &o));
	OK(bg_buffer_read(o.y, 0, got, TOKENS * HIDDEN, 60000));
	for (int i = 0; i < TOKENS * HIDDEN; i++) CHECK(got[i] == want[i]);

	static float own[5][16] __attribute__((aligned(16)));
	static int64_t index[N] __attribute__((aligned(16)));
	memcpy(own[0], tokens, sizeof tokens);
	memcpy(own[2], weights, sizeof weights);
	memcpy(own[3], gate_up, sizeof gate_up);
	memcpy(own[4], down, sizeof down);
	memcpy(index, index64, sizeof index);
	bg_expert_addresses a = {.struct_size = sizeof a, .x = (uintptr_t)own[0], .y = (uintptr_t)own[1],
		.index = (uintptr_t)index, .weights = (uintptr_t)own[2], .gate_up = (uintptr_t)own[3],
		.down = (uintptr_t)own[4], .tokens = 2};
	for (int i = 0; i < TOKENS * HIDDEN; i++) own[1][i] = CANARY;
	OK(bg_run_experts_at(p, 0, &a));
	OK(bg_wait(device, BG_NO_TIMEOUT));
	for (int i = 0; i < TOKENS * HIDDEN; i++) CHECK(own[1][i] == (i < 2 * HIDDEN ? want[i] : CANARY));

	a.tokens = TOKENS + 1;
	FAILS(bg_run_experts_at(p, 0, &a), BG_ERR_INVALID, "5 tokens are not in [0, 4]");
	a.tokens = 0, a.index = 0;
	FAILS(bg_run_experts_at(p, 0, &a), BG_ERR_INVALID, "Index is 0");
	o.down = 0;
	FAILS(bg_run_experts(p, &o), BG_ERR_INVALID, "Down is nil");
	o.down = p;
	FAILS(bg_run_experts(p, &o), BG_ERR_HANDLE, "down: buffer: handle");
	FAILS(bg_run(p, o.x, o.x, o.y), BG_ERR_HANDLE, "is a layer of experts");
	OK(bg_close(p));
	FAILS(bg_run_experts(p, &o), BG_ERR_HANDLE, "unknown");
}

/* Where a layer has its scales, after memory of its own: 64 + 3*8 words of the routing, 4 scales of x, and 8
 * of what is between the products. */
static void test_scales(bg_device device) {
	bg_experts x = layer();
	bg_program p;
	int64_t at, after, words;
	OK(bg_prepare_experts(device, &x, NULL, "{\"type_a\": \"int8\", \"epilogue\": {\"gated\": true, "
		"\"scale_a\": \"row\", \"scale_b\": \"row\"}}", &p));
	OK(bg_experts_scales(p, &at, &after, &words));
	CHECK(at == 100 && after == at + EXPERTS * 2 * INNER && words == after + EXPERTS * HIDDEN);
	FAILS(bg_experts_scales(p, &at, NULL, &words), BG_ERR_INVALID, "is NULL");
	bg_expert_operands o = {.struct_size = sizeof o, .x = words_of(device, tokens, TOKENS * HIDDEN),
		.y = words_of(device, NULL, TOKENS * HIDDEN), .index = words_of(device, index64, 2 * N),
		.weights = words_of(device, weights, N), .scales = words_of(device, NULL, words)};
	static const int8_t ones[EXPERTS * 2 * INNER * HIDDEN] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	OK(bg_buffer_new_of(device, "int8", sizeof ones, &o.gate_up));
	OK(bg_buffer_new_of(device, "int8", EXPERTS * HIDDEN, &o.down));
	OK(bg_buffer_write(o.gate_up, 0, ones, sizeof ones, BG_NO_TIMEOUT));
	OK(bg_buffer_write(o.down, 0, ones, EXPERTS * HIDDEN, BG_NO_TIMEOUT));
	/* So the weights are as those above. */
	static const float scales[] = {1, 2, 2, 2, 3, 2, 1, 10, 1, 10, 1, 10};
	OK(bg_buffer_write(o.scales, at, scales, words - at, BG_NO_TIMEOUT));
	OK(bg_run_experts(p, &o));
	float want[TOKENS * HIDDEN], got[TOKENS * HIDDEN];
	want_of(want);
	OK(bg_buffer_read(o.y, 0, got, TOKENS * HIDDEN, 60000));
	for (int i = 0; i < TOKENS * HIDDEN; i++) CHECK(got[i] >= 0.99f * want[i] && got[i] <= 1.01f * want[i]);
	o.scales = 0;
	FAILS(bg_run_experts(p, &o), BG_ERR_INVALID, "Scales is nil");
}

static void test_wrong_layers(bg_device device) {
	bg_experts x = layer();
	bg_program p;
	FAILS(bg_prepare_experts(device, NULL, NULL, NULL, &p), BG_ERR_INVALID, "experts is NULL");
	FAILS(bg_prepare_experts(device, &x, "int8", NULL, &p), BG_ERR_INVALID, "weights cannot be of int8");
	FAILS(bg_prepare_experts(device, &x, NULL, "{\"epilogue\": {\"weights\": true}}", &p), BG_ERR_INVALID,
		"the layer says what its epilogues are");
	x.flags = BG_INTERLEAVED;
	FAILS(bg_prepare_experts(device, &x, NULL, NULL, &p), BG_ERR_INVALID, "gate and up are interleaved");
	x.flags |= BG_APART;
	FAILS(bg_prepare_experts(device, &x, NULL, NULL, &p), BG_ERR_INVALID, "and that are apart");
	x.flags = 16;
	FAILS(bg_prepare_experts(device, &x, NULL, NULL, &p), BG_ERR_INVALID, "flags 0x10");
	x = layer(), x.hidden = 0;
	FAILS(bg_prepare_experts(device, &x, NULL, NULL, &p), BG_ERR_INVALID, "hidden 0");
	x = layer(), x.struct_size = 4;
	FAILS(bg_prepare_experts(device, &x, NULL, NULL, &p), BG_ERR_INVALID, "sizeof(bg_experts), 56 here");
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", -1, &device));
	test_layer(device);
	test_wrong_layers(device);
	test_steps(device);
	test_at(device);
	test_gate(device);
	test_quantized(device);
	test_scales(device);
	test_mistakes(device);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
