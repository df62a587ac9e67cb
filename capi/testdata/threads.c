/* Eight threads: on one device with objects of their own, and with shared handles
 * that others close meanwhile. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 25 };

static bg_device device;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bg_buffer shared;

static bg_buffer look(void) {
	pthread_mutex_lock(&lock);
	bg_buffer b = shared;
	pthread_mutex_unlock(&lock);
	return b;
}

static bg_buffer replace(bg_buffer fresh) {
	pthread_mutex_lock(&lock);
	bg_buffer b = shared;
	shared = fresh;
	pthread_mutex_unlock(&lock);
	return b;
}

static void own(uint32_t seed) {
	batch t = new_batch(4, 30, seed);
	OK(bg_gemm(device, t.problems, t.count, t.a, t.len_a, t.b, t.len_b, t.c, t.len_c, BG_NO_TIMEOUT));
	check_batch(&t);
	bg_plan plan;
	bg_program program;
	bg_buffer a, b, c;
	OK(bg_plan_new(device, t.problems, t.count, NULL, &plan));
	OK(bg_prepare(device, plan, &program));
	OK(bg_buffer_new(device, t.len_a, &a));
	OK(bg_buffer_new(device, t.len_b, &b));
	OK(bg_buffer_new(device, t.len_c, &c));
	OK(bg_buffer_write(a, 0, t.a, t.len_a, BG_NO_TIMEOUT));
	OK(bg_buffer_write(b, 0, t.b, t.len_b, BG_NO_TIMEOUT));
	OK(bg_buffer_write(c, 0, t.before, t.len_c, BG_NO_TIMEOUT));
	OK(bg_run(program, a, b, c));
	memset(t.c, 0, (size_t)t.len_c * sizeof(float));
	OK(bg_buffer_read(c, 0, t.c, t.len_c, BG_NO_TIMEOUT));
	check_batch(&t);
	uint64_t all[] = {plan, program, a, b, c};
	for (int i = 0; i < 5; i++) OK(bg_close(all[i]));
	free_batch(&t);
}

/* Everybody writes to a shared buffer, which others replace and close meanwhile. */
static void share(void) {
	float x = 1;
	bg_status s = bg_buffer_write(look(), 0, &x, 1, BG_NO_TIMEOUT);
	CHECK(s == BG_OK || (s == BG_ERR_HANDLE && strstr(bg_last_error(), "closed")));
	bg_buffer fresh;
	OK(bg_buffer_new(device, 1, &fresh));
	OK(bg_close(replace(fresh)));
}

static void *work(void *number) {
	for (uint32_t round = 0; round < ROUNDS; round++) {
		own(1 + 1000 * *(uint32_t *)number + round);
		for (int i = 0; i < 20; i++) share();
	}
	return NULL;
}

int main(void) {
	pthread_t threads[THREADS];
	uint32_t numbers_of[THREADS];
	bg_buffer first;
	OK(bg_open("cpu", -1, &device));
	OK(bg_buffer_new(device, 1, &first));
	replace(first);
	for (uint32_t i = 0; i < THREADS; i++) {
		numbers_of[i] = i;
		CHECK(pthread_create(&threads[i], NULL, work, &numbers_of[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
