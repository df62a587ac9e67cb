// Package dl is the code that CUDA and HIP share: devices, buffers, transfers, programs, submissions and
// waits, with a vendor's library that is opened at run time (dlopen), through cgo. A Vendor describes such a
// library; packages native/cuda and native/hip contain little else.
//
// entries.h lists the functions that are called. In C they are function pointers. A submission is one call
// of C for any number of runs.
package dl
