/* entry.c without Go: what each function hands on, and how it leaves the thread's signals. */
#define _POSIX_C_SOURCE 200809L
#include "../entry.c"

#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

/* Arrays of length 0 may be any number: none is handed on. Others are as they came. */
static void test_arrays(void) {
	float x[4], *junk = (float *)1;
	bg_problem p, *none = (bg_problem *)1;
	bg_ragged g;
	bg_plan plan;
#define HANDS_ON(call, p, q, r, s) \
	do { \
		CHECK((call) == BG_ERR_FAILED); \
		CHECK(seen.arrays[0] == (p) && seen.arrays[1] == (q) && seen.arrays[2] == (r) && \
			seen.arrays[3] == (s)); \
	} while (0)
	HANDS_ON(bg_plan_new(1, none, 0, NULL, &plan), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_plan_new(1, &p, 1, NULL, &plan), &p, NULL, NULL, NULL);
	HANDS_ON(bg_update(1, none, 0), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_update(1, &p, 1), &p, NULL, NULL, NULL);
	HANDS_ON(bg_prepare_ragged(1, &g, NULL, &plan), &g, NULL, NULL, NULL);
	bg_choices c;
	HANDS_ON(bg_prepare_routing(1, &c, NULL, &plan), &c, NULL, NULL, NULL);
	HANDS_ON(bg_prepare_combine(1, &c, 8, NULL, &plan), &c, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_write(1, 0, junk, 0, 0), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_write(1, 0, junk, -1, 0), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_write(1, 0, x, 4, 0), x, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_read(1, 0, junk, 0, 0), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_read(1, 0, junk, -1, 0), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_read(1, 0, x, 4, 0), x, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_read_async(1, 0, junk, 0, &plan), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_buffer_read_async(1, 0, x, 4, &plan), x, NULL, NULL, NULL);
	HANDS_ON(bg_gemm(1, none, 0, junk, 0, junk, 0, junk, 0, 0), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_gemm(1, &p, 1, x, 1, junk, 0, junk, 0, 0), &p, x, NULL, NULL);
	HANDS_ON(bg_gemm(1, &p, 1, junk, 0, x, 1, junk, 0, 0), &p, NULL, x, NULL);
	HANDS_ON(bg_gemm(1, &p, 1, junk, 0, junk, 0, x, 1, 0), &p, NULL, NULL, x);
	HANDS_ON(bg_gemm_of(1, none, 0, "{}", junk, 0, junk, 0, junk, -1, 0), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_gemm_of(1, &p, 1, "{}", x, 1, x + 1, 1, x + 2, 1, 0), &p, x, x + 1, x + 2);
	uint32_t w[2];
	uint8_t q[8];
	HANDS_ON(bg_pack_int4((uint8_t *)junk, 1, 0, (uint32_t *)junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_pack_int4(q, 1, 8, w), q, w, NULL, NULL);
	HANDS_ON(bg_unpack_int4((uint32_t *)junk, -1, 1, (uint8_t *)junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_unpack_int4(w, 8, 1, q), w, q, NULL, NULL);
	HANDS_ON(bg_group_words(junk, (uint8_t *)junk, 0, (uint32_t *)junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_group_words(x, q, 2, w), x, q, w, NULL);
	HANDS_ON(bg_split_group_words((uint32_t *)junk, 0, junk, (uint8_t *)junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_split_group_words(w, 2, x, q), w, x, q, NULL);
	HANDS_ON(bg_quantize_int4(junk, 0, 1, 64, (uint32_t *)junk, (uint32_t *)junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_quantize_int4(x, 1, 4, 64, w, w + 1), x, w, w + 1, NULL);
	HANDS_ON(bg_pack_fp4("", (uint8_t *)junk, (uint8_t *)junk, 1, 0, 64, (uint32_t *)junk, (uint32_t *)junk),
		NULL, NULL, NULL, NULL);
	HANDS_ON(bg_pack_fp4("", q, q + 1, 1, 1, 64, w, w + 1), q, q + 1, w, w + 1);
	HANDS_ON(bg_unpack_fp4("", (uint32_t *)junk, (uint32_t *)junk, 1, 0, (uint8_t *)junk, (uint8_t *)junk, x),
		NULL, NULL, NULL, NULL);
	HANDS_ON(bg_unpack_fp4("", w, w + 1, 1, 64, q, q + 1, x), w, w + 1, q, q + 1);
	HANDS_ON(bg_pack_checkpoint("", (uint32_t *)junk, (uint32_t *)junk, junk, 0, 64, 64, (uint32_t *)junk,
		(uint32_t *)junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_pack_checkpoint("", w, w + 1, x, 8, 64, 64, w, w + 1), w, w + 1, x, w);
	HANDS_ON(bg_unpack_checkpoint("", (uint32_t *)junk, (uint32_t *)junk, 8, 0, 64, (uint32_t *)junk,
		(uint32_t *)junk, junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_unpack_checkpoint("", w, w + 1, 8, 64, 64, w, w + 1, x), w, w + 1, w, x);
	HANDS_ON(bg_sum_columns((int8_t *)junk, 0, 0, 4, 0, (int32_t *)junk), NULL, NULL, NULL, NULL);
	HANDS_ON(bg_sum_columns((int8_t *)junk, 0, 2, 4, 0, (int32_t *)w), NULL, w, NULL, NULL);
	HANDS_ON(bg_sum_columns((int8_t *)q, 2, 2, 4, 0, (int32_t *)w), q, w, NULL, NULL);
	bg_host_operands o;
	HANDS_ON(bg_gemm_operands(1, none, 0, "{}", &o, 0), NULL, &o, NULL, NULL);
	HANDS_ON(bg_gemm_operands(1, &p, 1, "{}", &o, 0), &p, &o, NULL, NULL);
	HANDS_ON(bg_gemm_operands_async(1, none, 0, "{}", &o, &plan), NULL, &o, NULL, NULL);
}

static int same(const sigset_t *x, const sigset_t *y) {
	for (int s = 1; s < 65; s++)
		if (sigismember(x, s) != sigismember(y, s)) return 0;
	return 1;
}

/* Within a call all signals are blocked but those that Go needs, also where the host
 * has blocked these. Behind it the mask is the host's again. */
static void test_signals(void) {
	sigset_t host, now;
	sigemptyset(&host), sigaddset(&host, SIGUSR2), sigaddset(&host, SIGURG);
	CHECK(pthread_sigmask(SIG_SETMASK, &host, &now) == 0);
	CHECK(!sigismember(&now, SIGALRM)); /* as before loading */
	for (int i = 0; i < 2; i++) {
		call_all(BG_ERR_FAILED);
		CHECK(same(&seen.mask, &host)); /* and so it was after the call before */
	}
	CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0 && same(&now, &host));
	static const int blocked[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM,
		SIGCHLD, SIGTSTP, SIGIO, SIGPROF};
	static const int open[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGURG};
	for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
		CHECK(sigismember(&seen.blocked, blocked[i]) == 1);
	for (size_t i = 0; i < sizeof open / sizeof *open; i++) CHECK(sigismember(&seen.blocked, open[i]) == 0);
	for (int s = SIGRTMIN; s <= SIGRTMAX; s++) CHECK(sigismember(&seen.blocked, s) == 1);
}

/* No function enters Go in a child of fork(). */
static void test_fork(void) {
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int calls = seen.calls;
		call_all(BG_ERR_FORKED);
		CHECK(seen.calls == calls);
		_exit(0);
	}
	int state;
	CHECK(waitpid(child, &state, 0) == child && state == 0);
}

int main(void) {
	test_arrays();
	test_signals();
	test_fork();
	puts("ok");
	return 0;
}
