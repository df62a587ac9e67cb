/* Plans, programs and buffers that stay on the device. */
#include "check.h"

/* text returns what bg_device_info or bg_plan_explain says, freed by the caller. */
static char *text(bg_status (*describe)(uint64_t, char *, size_t, size_t *), uint64_t handle) {
	size_t needed;
	OK(describe(handle, NULL, 0, &needed));
	CHECK(needed > 2);
	char *s = malloc(needed + 1);
	CHECK(s);
	memset(s, '#', needed + 1);
	FAILS(describe(handle, s, needed - 1, &needed), BG_ERR_INVALID, "are needed");
	CHECK(s[0] == '#');
	OK(describe(handle, s, needed, NULL));
	CHECK(strlen(s) == needed - 1 && s[needed] == '#');
	return s;
}

static bg_buffer upload(bg_device device, const float *from, int64_t count) {
	bg_buffer b;
	OK(bg_buffer_new(device, count, &b));
	OK(bg_buffer_write(b, 0, from, count, BG_NO_TIMEOUT));
	return b;
}

static void run_program(bg_device device, bg_program program, batch *t) {
	bg_buffer a = upload(device, t->a, t->len_a), b = upload(device, t->b, t->len_b),
		c = upload(device, t->before, t->len_c);
	for (int run = 0; run < 3; run++) {
		OK(bg_buffer_write(c, 0, t->before, t->len_c, BG_NO_TIMEOUT));
		OK(bg_run(program, a, b, c));
		OK(bg_wait(device, 60000));
		memset(t->c, 0, (size_t)t->len_c * sizeof(float));
		OK(bg_buffer_read(c, 0, t->c, t->len_c / 2, 60000));
		OK(bg_buffer_read(c, t->len_c / 2, t->c + t->len_c / 2, t->len_c - t->len_c / 2, INT64_MAX));
		check_batch(t);
	}
	OK(bg_close(a));
	OK(bg_close(b));
	OK(bg_close(c));
}

static void test_program(bg_device device, const char *options, const char *explained) {
	batch t = new_batch(12, 50, 3);
	bg_plan plan;
	OK(bg_plan_new(device, t.problems, t.count, options, &plan));
	char *s = text(bg_plan_explain, plan);
	CHECK(strstr(s, explained));
	free(s);
	bg_program program;
	OK(bg_prepare(device, plan, &program));
	OK(bg_close(plan));
	run_program(device, program, &t);
	batch larger = new_batch(20, 60, 4);
	OK(bg_update(program, larger.problems, larger.count));
	run_program(device, program, &larger);
	CHECK(bg_update(program, NULL, -1) == BG_ERR_INVALID);
	OK(bg_update(program, t.problems, t.count));
	run_program(device, program, &t);
	OK(bg_close(program));
	free_batch(&t);
	free_batch(&larger);
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", 0, &device));
	char *s = text(bg_device_info, device);
	CHECK(strstr(s, "\"backend\":\"cpu\""));
	free(s);
	test_program(device, NULL, "\"rule\":\"cost\"");
	test_program(device, "{}", "\"rule\":\"cost\"");
	test_program(device, "{\"compute\": \"f32\", \"schedule\": \"stream-k\"}", "\"schedule\":\"stream-k\"");
	test_program(device, "{\"rule\": \"zhang2025\", \"tlp\": 3, \"threshold\": 1000}",
		"\"rule\":\"zhang2025\"");
	OK(bg_close(device));
	puts("ok");
	return 0;
}
