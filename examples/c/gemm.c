/* Two products of different sizes in one call, and the same with operands that stay
 * on the device. Build: make capi, which makes bin/c-gemm of this, or CMakeLists.txt where it is
 * installed. */
#include <stdio.h>
#include <stdlib.h>

#include "batchgemm.h"

static void check(bg_status status) {
	if (status == BG_OK) return;
	fprintf(stderr, "batchgemm: %s\n", bg_last_error());
	exit(1);
}

static bg_buffer upload(bg_device device, const float *from, int64_t count) {
	bg_buffer buffer;
	check(bg_buffer_new(device, count, &buffer));
	check(bg_buffer_write(buffer, 0, from, count, BG_NO_TIMEOUT));
	return buffer;
}

int main(void) {
	bg_problem problems[] = {bg_problem_of(2, 2, 3), bg_problem_of(1, 3, 1)}; /* M, N, K */
	problems[1].offset_a = problems[1].offset_b = 8; /* after the first */
	problems[1].offset_c = 4;
	const float a[9] = {1, 2, 3, 4, 5, 6, 0, 0, 10};
	const float b[11] = {1, 0, 0, 1, 1, 1, 0, 0, 1, 2, 3};
	float c[7];

	bg_device device;
	check(bg_open(NULL, -1, &device)); /* the best device of this machine */
	check(bg_gemm(device, problems, 2, a, 9, b, 11, c, 7, BG_NO_TIMEOUT));
	printf("%g %g %g %g, %g %g %g\n", c[0], c[1], c[2], c[3], c[4], c[5], c[6]);

	/* For repeated work: plan and prepare once, then only bg_run. */
	bg_plan plan;
	bg_program program;
	check(bg_plan_new(device, problems, 2, NULL, &plan));
	check(bg_prepare(device, plan, &program));
	check(bg_close(plan));
	bg_buffer on_device[] = {upload(device, a, 9), upload(device, b, 11), upload(device, c, 7)};
	for (int step = 0; step < 3; step++) check(bg_run(program, on_device[0], on_device[1], on_device[2]));
	check(bg_buffer_read(on_device[2], 0, c, 7, BG_NO_TIMEOUT)); /* waits for the runs */
	printf("%g %g %g %g, %g %g %g\n", c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
	check(bg_close(device)); /* closes program and buffers too */
	return 0;
}
