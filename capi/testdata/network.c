/* What a program does that never waits: slices of one buffer, copies on the device, reads that
 * are under way, kernels made ready beforehand. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { UNIT = 64, ELEMENTS = 5 * UNIT }; /* UNIT: where slices may begin */

static bg_buffer slice_of(bg_buffer buffer, int64_t offset, int64_t count) {
	bg_buffer slice;
	OK(bg_buffer_slice(buffer, offset, count, &slice));
	return slice;
}

/* Two layers of 2x2. Operands and results are slices of one buffer each: ((A*B)*B)*B. */
static void test_layers(bg_device device) {
	bg_problem p = bg_problem_of(2, 2, 2);
	bg_plan plan;
	bg_program program;
	OK(bg_warm(device, "{\"compute\": \"f32\"}", 0, BG_NO_TIMEOUT));
	OK(bg_plan_new(device, &p, 1, "{\"compute\": \"f32\", \"warmed\": true}", &plan));
	OK(bg_prepare(device, plan, &program));
	OK(bg_close(plan));
	FAILS(bg_plan_new(device, &p, 1, "{\"type_a\": \"bf16\", \"warmed\": true}", &plan),
		BG_ERR_INVALID, "Kernels");
	bg_buffer all, results;
	OK(bg_buffer_new(device, ELEMENTS, &all));
	OK(bg_buffer_new(device, ELEMENTS, &results));
	bg_buffer a = slice_of(all, 0, 4), b = slice_of(all, UNIT, 4), c = slice_of(results, UNIT, 4);
	const float one[4] = {1, 2, 3, 4}, two[4] = {0, 1, 2, 0};
	OK(bg_buffer_write(a, 0, one, 4, BG_NO_TIMEOUT));
	OK(bg_buffer_write(b, 0, two, 4, BG_NO_TIMEOUT));
	float got[3][4];
	bg_read reads[3];
	for (int layer = 0; layer < 3; layer++) {
		OK(bg_run(program, a, b, c));
		OK(bg_buffer_read_async(results, UNIT, got[layer], 4, &reads[layer]));
		OK(bg_copy(device, a, c));
	}
	const float want[3][4] = {{4, 1, 8, 3}, {2, 4, 6, 8}, {8, 2, 16, 6}};
	for (int layer = 2; layer >= 0; layer--) {
		int32_t done;
		OK(bg_read_wait(reads[layer], 60000));
		OK(bg_read_done(reads[layer], &done));
		CHECK(done == 1);
		CHECK(memcmp(got[layer], want[layer], sizeof got[layer]) == 0);
		OK(bg_close(reads[layer]));
	}
	OK(bg_close(a));
	OK(bg_buffer_read(all, 0, got[0], 4, BG_NO_TIMEOUT)); /* the memory is the buffer's */
	CHECK(memcmp(got[0], want[2], sizeof got[0]) == 0);
	OK(bg_close(all));
	CHECK(bg_run(program, b, b, c) == BG_ERR_HANDLE); /* its buffer is closed */
	OK(bg_close(results));
	OK(bg_close(program));
}

static void test_halves(bg_device device) {
	bg_buffer buffer;
	uint16_t from[6] = {1, 2, 3, 4, 5, 6}, to[3] = {0};
	bg_read read;
	OK(bg_buffer_new_of(device, "bf16", 6, &buffer));
	OK(bg_buffer_write(buffer, 0, from, 6, BG_NO_TIMEOUT));
	OK(bg_buffer_read_async(buffer, 1, to, 3, &read));
	OK(bg_read_wait(read, BG_NO_TIMEOUT));
	CHECK(memcmp(to, from + 1, sizeof to) == 0);
	OK(bg_close(read));
	OK(bg_close(buffer));
}

/* An event loop waits for a read by poll, also where the read, or its device, was closed. */
static void test_notified(void) {
	bg_device device;
	bg_buffer buffer;
	bg_read read;
	int32_t done;
	float to[4];
	uint64_t count = 0;
	OK(bg_open("cpu", 0, &device));
	OK(bg_buffer_new(device, 4, &buffer));
	OK(bg_buffer_write(buffer, 0, (const float[]){1, 2, 3, 4}, 4, BG_NO_TIMEOUT));
	int event = eventfd(0, EFD_NONBLOCK);
	CHECK(event >= 0);
	struct pollfd wanted = {.fd = event, .events = POLLIN};
	OK(bg_buffer_read_async(buffer, 0, to, 4, &read));
	FAILS(bg_read_notify(read, -1), BG_ERR_INVALID, "fd -1: bad file descriptor");
	OK(bg_read_notify(read, event));
	CHECK(poll(&wanted, 1, 60000) == 1);
	OK(bg_read_done(read, &done));
	CHECK(done == 1 && to[3] == 4);
	CHECK(eventfd_read(event, &count) == 0 && count == 1);
	CHECK(poll(&wanted, 1, 0) == 0);
	OK(bg_read_notify(read, event)); /* it is done already */
	OK(bg_close(read));
	CHECK(poll(&wanted, 1, 60000) == 1);
	CHECK(eventfd_read(event, &count) == 0 && count == 1);
	OK(bg_buffer_read_async(buffer, 0, to, 4, &read));
	OK(bg_read_notify(read, event));
	OK(bg_close(device));
	CHECK(poll(&wanted, 1, 60000) == 1);
	close(event);
}

static int entries(const char *path) {
	int count = 0;
	DIR *dir = opendir(path);
	CHECK(dir);
	while (readdir(dir)) count++;
	closedir(dir);
	return count;
}

/* A pipe without room gets nothing, and keeps neither a thread nor a descriptor. */
static void test_full_pipe(bg_device device) {
	enum { READS = 64 };
	static char piece[4096];
	bg_buffer buffer;
	bg_read reading;
	float to[4];
	int ends[2];
	uint64_t word = 0;
	OK(bg_buffer_new(device, 4, &buffer));
	CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
	int64_t filled = 0, left = 0;
	for (ssize_t n; (n = write(ends[1], piece, sizeof piece)) > 0;) filled += n;
	CHECK(filled > 0 && fcntl(ends[1], F_SETFL, 0) == 0);
	const int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");
	for (int i = 0; i < READS; i++) {
		OK(bg_buffer_read_async(buffer, 0, to, 4, &reading));
		OK(bg_read_notify(reading, ends[1]));
		OK(bg_read_wait(reading, 60000));
		OK(bg_close(reading));
	}
	for (int ms = 0; entries("/proc/self/fd") > descriptors; ms++) CHECK(ms < 60000 && poll(NULL, 0, 1) == 0);
	CHECK(entries("/proc/self/task") < threads + READS / 2);

	OK(bg_buffer_read_async(buffer, 0, to, 4, &reading));
	CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
	for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) left += n;
	CHECK(left == filled);
	OK(bg_read_notify(reading, ends[1]));
	struct pollfd wanted = {.fd = ends[0], .events = POLLIN};
	CHECK(poll(&wanted, 1, 60000) == 1 && read(ends[0], &word, sizeof word) == sizeof word && word == 1);
	close(ends[0]);
	OK(bg_read_notify(reading, ends[1])); /* nobody reads: no SIGPIPE */
	close(ends[1]);
	for (int ms = 0; entries("/proc/self/fd") > descriptors - 2; ms++)
		CHECK(ms < 60000 && poll(NULL, 0, 1) == 0);
	OK(bg_close(reading));
	OK(bg_close(buffer));
}

/* A slice is gone with its device, as its buffer is. */
static void test_slice_of_closed(void) {
	bg_device device;
	bg_buffer buffer;
	OK(bg_open("cpu", 0, &device));
	OK(bg_buffer_new(device, 4, &buffer));
	bg_buffer slice = slice_of(buffer, 0, 4);
	OK(bg_close(device));
	FAILS(bg_close(buffer), BG_ERR_HANDLE, "was closed");
	FAILS(bg_close(slice), BG_ERR_HANDLE, "was closed");
}

/* If a read, or its device, was closed, its memory is the caller's again. */
static void test_ended(void) {
	bg_device device;
	bg_buffer buffer;
	bg_read read, other;
	OK(bg_open("cpu", 0, &device));
	OK(bg_buffer_new(device, 1 << 20, &buffer));
	float *to = numbers(1 << 20, 0), *more = numbers(1 << 20, 0);
	OK(bg_buffer_read_async(buffer, 0, to, 1 << 20, &read));
	OK(bg_close(read));
	free(to);
	OK(bg_buffer_read_async(buffer, 0, more, 1 << 20, &other));
	OK(bg_close(device));
	free(more);
	CHECK(bg_read_wait(other, BG_NO_TIMEOUT) == BG_ERR_HANDLE);
}

static void test_errors(bg_device device) {
	bg_buffer buffer, other, slice = 9;
	bg_read read = 9;
	float x[4];
	OK(bg_buffer_new(device, 100, &buffer));
	OK(bg_buffer_new(device, 99, &other));
	FAILS(bg_buffer_slice(buffer, 1, 4, &slice), BG_ERR_INVALID, "offset 1 is not a multiple of 64 elements");
	CHECK(slice == 0);
	FAILS(bg_buffer_slice(buffer, 64, 37, &slice), BG_ERR_INVALID,
		"37 elements from 64 on, in a buffer of 100");
	FAILS(bg_buffer_slice(buffer, 0, 4, NULL), BG_ERR_INVALID, "slice is NULL");
	FAILS(bg_copy(device, buffer, other), BG_ERR_INVALID, "dst has 100 elements, src has 99");
	FAILS(bg_copy(device, buffer, 0), BG_ERR_HANDLE, "src: buffer: the handle is 0");
	FAILS(bg_copy(device, buffer, buffer), BG_ERR_INVALID, "dst and src are of one buffer");
	FAILS(bg_buffer_read_async(buffer, 98, x, 4, &read), BG_ERR_INVALID, "98");
	CHECK(read == 0);
	FAILS(bg_buffer_read_async(buffer, 0, NULL, 4, &read), BG_ERR_INVALID, "dst is NULL");
	FAILS(bg_read_done(buffer, NULL), BG_ERR_INVALID, "done is NULL");
	FAILS(bg_read_wait(buffer, 0), BG_ERR_HANDLE, "is a buffer");
	FAILS(bg_warm(device, NULL, 8, 0), BG_ERR_INVALID, "flags 0x8");
	FAILS(bg_warm(device, "{\"warm\": 1}", 0, 0), BG_ERR_INVALID, "options: ");
	FAILS(bg_warm(device, NULL, 0, -1), BG_ERR_INVALID, "timeout_ms -1");
	OK(bg_close(buffer));
	OK(bg_close(other));
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", 0, &device));
	test_layers(device);
	test_halves(device);
	test_errors(device);
	test_full_pipe(device);
	OK(bg_close(device));
	test_notified();
	test_slice_of_closed();
	test_ended();
	puts("ok");
	return 0;
}
