// Runs the kernels of native/kernels.hip on the CPU. Compile shim.cpp with g++.
#ifndef BG_SHIM_H
#define BG_SHIM_H
#ifdef __cplusplus
extern "C" {
#endif

// bg_shim_launch runs a kernel by its name over a grid of thread groups, one
// after the other. args are pointers to the ten parameters that a kernel
// with an epilogue has. It returns 0; else bg_shim_error says what
// is wrong: no such kernel, or threads that do not meet at a barrier. Launches of
// several threads take turns.
int bg_shim_launch(const char* kernel, unsigned grid_x, unsigned grid_y, unsigned threads, void** args);

// bg_shim_error is the message of the calling thread's last launch.
const char* bg_shim_error(void);

// bg_shim_order sets in which order the threads of a group run between two
// barriers: 0 ascending, 1 descending, 2 shuffled anew each time (the default).
void bg_shim_order(int order);

// bg_shim_wave_size sets the lanes of a wave, 64 (the default) or 32. Matrix
// instructions need 64.
void bg_shim_wave_size(unsigned lanes);

// bg_shim_has reports whether there is a kernel of that name.
int bg_shim_has(const char* kernel);

#ifdef __cplusplus
}
#endif
#endif
