// What Go and C of this package know of each other, beside batchgemm.h and the functions that Go exports.
#ifndef CAPI_INTERNAL_H
#define CAPI_INTERNAL_H

#include <signal.h>

#include "batchgemm.h"

// capi_set_error makes text the calling thread's last error, and owns it from then on.
void capi_set_error(char *text);

// capi_handle_signals lets the calling thread take the signals that wait for the process and that mask does
// not block. Their handlers run before it returns.
void capi_handle_signals(const sigset_t *mask);

#endif
