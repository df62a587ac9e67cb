// What Go and C of this package know of each other besides batchgemm.h and the
// functions that Go exports.
#ifndef CAPI_INTERNAL_H
#define CAPI_INTERNAL_H

#include "batchgemm.h"

// capi_set_error makes text, which it takes over, the calling thread's last error.
void capi_set_error(char *text);

#endif
