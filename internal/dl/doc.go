// Package dl is the backend text that CUDA and HIP share: devices, buffers,
// transfers, programs, submissions and waits over a vendor's library that is
// opened at run time (dlopen), through cgo. A Vendor describes such a library;
// the packages native/cuda and native/hip are hardly more than that description.
//
// entries.h lists what is called of a library. The entry points are function
// pointers in C; a submission is one call of C however many runs it has.
package dl
