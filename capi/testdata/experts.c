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

int main(void) {
	bg_device device;
	OK(bg_open("cpu", -1, &device));
	test_steps(device);
	test_at(device);
	test_mistakes(device);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
