// What Go and C of this package know of each other besides batchgemm.h and the
// functions that Go exports.
#ifndef CAPI_INTERNAL_H
#define CAPI_INTERNAL_H

#include <signal.h>

#include "batchgemm.h"

// capi_set_error makes text, which it takes over, the calling thread's last error.
void capi_set_error(char *text);

// capi_handle_signals lets the calling thread take the signals that wait for the
// process and that mask does not block: their handlers run before it returns.
void capi_handle_signals(const sigset_t *mask);

#endif
