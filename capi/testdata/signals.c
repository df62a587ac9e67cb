/* A host with handlers that have no SA_ONSTACK and need much stack: they run on the large
 * stacks of threads alone, also during a long call, and never where all threads of
 * the host block their signal. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3, SENT = 2000 };
#define QUEUED (SIGRTMIN + 1) /* a signal of real time: none replaces another */

static bg_device device;
static pthread_t main_thread;
static volatile sig_atomic_t elsewhere; /* the last handler did not run on the main thread */
static int handled;

static void handler(int signal) {
	char room[64 << 10];
	memset(room, signal, sizeof room);
	__asm__ volatile("" : : "r"(room) : "memory"); /* keep it */
	__atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
	elsewhere = !pthread_equal(pthread_self(), main_thread);
}

static int count(void) { return __atomic_load_n(&handled, __ATOMIC_SEQ_CST); }

static sigset_t set_of(int signal) {
	sigset_t s;
	sigemptyset(&s), sigaddset(&s, signal);
	return s;
}

/* The threads of the library block what is not Go's own. */
static void test_masks(void) {
	const int host[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGTSTP, SIGIO, QUEUED};
	int others = 0;
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	for (struct dirent *e; (e = readdir(tasks));) {
		char path[300], line[200];
		unsigned long long blocked = 0;
		if (e->d_name[0] == '.' || atoi(e->d_name) == getpid()) continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
		FILE *status = fopen(path, "r");
		if (!status) continue; /* it ended */
		while (fgets(line, sizeof line, status)) sscanf(line, "SigBlk: %llx", &blocked);
		fclose(status);
		others++;
		for (size_t i = 0; i < sizeof host / sizeof *host; i++) CHECK(blocked >> (host[i] - 1) & 1);
	}
	closedir(tasks);
	CHECK(others > 0);
}

static void *work(void *number) {
	for (uint32_t round = 0; count() < SENT; round++) {
		/* new sizes: Go plans and collects garbage */
		batch t = new_batch(3, 40, 1 + 100000 * *(uint32_t *)number + round);
		OK(bg_gemm(device, t.problems, t.count, t.a, t.len_a, t.b, t.len_b, t.c, t.len_c, BG_NO_TIMEOUT));
		check_batch(&t);
		free_batch(&t);
	}
	return NULL;
}

/* All of 2,000 signals are handled while all threads that take them call the library. */
static void test_many(void) {
	pthread_t threads[WORKERS];
	uint32_t numbers_of[WORKERS];
	sigset_t queued = set_of(QUEUED);
	for (uint32_t i = 0; i < WORKERS; i++) {
		numbers_of[i] = i;
		CHECK(pthread_create(&threads[i], NULL, work, &numbers_of[i]) == 0);
	}
	CHECK(pthread_sigmask(SIG_BLOCK, &queued, NULL) == 0);
	for (int i = 0; i < SENT; i++)
		while (sigqueue(getpid(), QUEUED, (union sigval){0})) {
			CHECK(errno == EAGAIN); /* the queue is full */
			sched_yield();
		}
	for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(count() == SENT);
	CHECK(pthread_sigmask(SIG_UNBLOCK, &queued, NULL) == 0);
}

/* A call that takes 300 ms: SIGALRM comes after 30. */
static void long_call(void) {
	enum { SIZE = 2048, COUNT = 4 };
	bg_problem p[COUNT];
	float *x = numbers((int64_t)SIZE * SIZE, 1), *y = numbers((int64_t)COUNT * SIZE * SIZE, 5);
	for (int i = 0; i < COUNT; i++)
		p[i] = bg_problem_of(SIZE, SIZE, SIZE), p[i].offset_c = (int64_t)i * SIZE * SIZE;
	struct itimerval after = {.it_value = {.tv_usec = 30000}};
	CHECK(setitimer(ITIMER_REAL, &after, NULL) == 0);
	bg_status s = bg_gemm(device, p, COUNT, x, SIZE * SIZE, x, SIZE * SIZE, y, (int64_t)COUNT * SIZE * SIZE,
		300);
	CHECK(s == BG_OK || s == BG_ERR_TIMEOUT);
	free(x), free(y);
}

/* The only thread of the host is in a call: a thread of the library handles the
 * signal; the main thread would do so at its end. */
static void test_long_call(void) {
	int before = count();
	long_call();
	CHECK(elsewhere && count() == before + 1);
}

/* A signal that the host blocks waits for the host. */
static void test_blocked(void) {
	sigset_t alarm = set_of(SIGALRM);
	struct timespec limit = {.tv_sec = 10};
	int before = count();
	CHECK(pthread_sigmask(SIG_BLOCK, &alarm, NULL) == 0);
	long_call();
	CHECK(sigtimedwait(&alarm, NULL, &limit) == SIGALRM && count() == before);
	CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm, NULL) == 0);
}

int main(void) {
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	main_thread = pthread_self();
	OK(bg_open("cpu", -1, &device));
	CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(QUEUED, &action, NULL) == 0);
	test_many();
	test_masks();
	test_long_call();
	test_blocked();
	OK(bg_close(device));
	puts("ok");
	return 0;
}
