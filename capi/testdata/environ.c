/* Opening devices leaves the process's environment alone. */
#include "check.h"

extern char **environ;

int main(void) {
	char **list = environ, **copy;
	size_t n = 0;
	while (list[n]) n++;
	CHECK((copy = malloc((n + 1) * sizeof *copy)));
	memcpy(copy, list, (n + 1) * sizeof *copy);
	bg_device device;
	OK(bg_open(NULL, -1, &device)); /* tries all backends */
	CHECK(environ == list && memcmp(copy, list, (n + 1) * sizeof *copy) == 0);
	OK(bg_close(device));
	free(copy);
	puts("ok");
	return 0;
}
