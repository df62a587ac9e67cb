/* A child of fork() gets errors, and the parent goes on. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void) {
	bg_device device, other;
	OK(bg_open("cpu", -1, &device));
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			alarm(20); /* hanging is a failure */
			call_all(BG_ERR_FORKED);
			FAILS(bg_wait(device, 0), BG_ERR_FORKED, "fork()");
			FAILS(bg_open("cpu", -1, &other), BG_ERR_FORKED, "fork()");
			FAILS(bg_close(device), BG_ERR_FORKED, "fork()");
			_exit(0);
		}
		int state;
		CHECK(waitpid(child, &state, 0) == child && state == 0);
		OK(bg_wait(device, BG_NO_TIMEOUT));
	}
	OK(bg_close(device));
	puts("ok");
	return 0;
}
