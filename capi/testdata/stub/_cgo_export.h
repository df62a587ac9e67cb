/* What cgo writes for main.go, with a C function in place of each of Go: it notes
 * the arrays and the mask that it is handed, and the signals that are blocked meanwhile. */
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "batchgemm.h"

static struct {
	int calls;
	const void *arrays[4];
	sigset_t blocked, mask;
} seen;

static bg_status note(sigset_t *mask, const void *p, const void *q, const void *r, const void *s) {
	seen.calls++;
	seen.arrays[0] = p, seen.arrays[1] = q, seen.arrays[2] = r, seen.arrays[3] = s;
	seen.mask = *mask;
	pthread_sigmask(SIG_BLOCK, NULL, &seen.blocked);
	return BG_ERR_FAILED;
}

#define goOpen(mask, backend, index, device) note(mask, NULL, NULL, NULL, NULL)
#define goOpenOnStream(mask, device, stream, opened) note(mask, NULL, NULL, NULL, NULL)
#define goDeviceInfo(mask, device, text, size, needed) note(mask, NULL, NULL, NULL, NULL)
#define goPlanNew(mask, device, problems, count, options, plan) note(mask, problems, NULL, NULL, NULL)
#define goPlanExplain(mask, plan, text, size, needed) note(mask, NULL, NULL, NULL, NULL)
#define goPrepare(mask, device, plan, program) note(mask, NULL, NULL, NULL, NULL)
#define goUpdate(mask, program, problems, count) note(mask, problems, NULL, NULL, NULL)
#define goPrepareRagged(mask, device, ragged, options, program) note(mask, ragged, NULL, NULL, NULL)
#define goPrepareRouting(mask, device, choices, type, program) note(mask, choices, NULL, NULL, NULL)
#define goPrepareCombine(mask, device, choices, hidden, type, program) note(mask, choices, NULL, NULL, NULL)
#define goPrepareGate(mask, device, choices, gate, type, backward, program) \
	note(mask, choices, gate, NULL, NULL)
#define goPrepareExperts(mask, device, experts, weights, options, program) \
	note(mask, experts, NULL, NULL, NULL)
#define goExpertsScales(mask, program, gate_up, down, words) note(mask, NULL, NULL, NULL, NULL)
#define goRunExperts(mask, program, operands) note(mask, operands, NULL, NULL, NULL)
#define goRunExpertsAt(mask, program, stream, addresses) note(mask, addresses, NULL, NULL, NULL)
#define goRunAllAt(mask, stream, programs, addresses, count) note(mask, programs, addresses, NULL, NULL)
#define goBufferNew(mask, device, type, count, buffer) note(mask, NULL, NULL, NULL, NULL)
#define goBufferWrap(mask, device, type, address, count, buffer) note(mask, NULL, NULL, NULL, NULL)
#define goBufferAddress(mask, buffer, address) note(mask, NULL, NULL, NULL, NULL)
#define goBufferWrite(mask, buffer, offset, src, count, timeout) note(mask, src, NULL, NULL, NULL)
#define goBufferRead(mask, buffer, offset, dst, count, timeout) note(mask, dst, NULL, NULL, NULL)
#define goBufferSlice(mask, buffer, offset, count, slice) note(mask, NULL, NULL, NULL, NULL)
#define goCopy(mask, device, dst, src) note(mask, NULL, NULL, NULL, NULL)
#define goBufferReadAsync(mask, buffer, offset, dst, count, read) note(mask, dst, NULL, NULL, NULL)
#define goReadDone(mask, read, done) note(mask, NULL, NULL, NULL, NULL)
#define goReadNotify(mask, read, fd) note(mask, NULL, NULL, NULL, NULL)
#define goReadWait(mask, read, timeout) note(mask, NULL, NULL, NULL, NULL)
#define goWarm(mask, device, options, flags, timeout) note(mask, NULL, NULL, NULL, NULL)
#define goRun(mask, program, a, b, c) note(mask, NULL, NULL, NULL, NULL)
#define goRunRagged(mask, program, sizes, a, b, c) note(mask, NULL, NULL, NULL, NULL)
#define goRunOperands(mask, program, operands) note(mask, operands, NULL, NULL, NULL)
#define goRunAt(mask, program, stream, addresses) note(mask, addresses, NULL, NULL, NULL)
#define goProgramStatus(mask, program, timeout) note(mask, NULL, NULL, NULL, NULL)
#define goWait(mask, device, timeout) note(mask, NULL, NULL, NULL, NULL)
#define goGEMM(mask, device, problems, count, options, a, len_a, b, len_b, c, len_c, timeout) \
	note(mask, problems, a, b, c)
#define goGEMMAsync(mask, device, problems, count, options, a, len_a, b, len_b, c, len_c, read) \
	note(mask, problems, a, b, c)
#define goGEMMOperands(mask, device, problems, count, options, operands, timeout) \
	note(mask, problems, operands, NULL, NULL)
#define goGEMMOperandsAsync(mask, device, problems, count, options, operands, read) \
	note(mask, problems, operands, NULL, NULL)
#define goPackInt4(mask, weights, n, k, words) note(mask, weights, words, NULL, NULL)
#define goUnpackInt4(mask, words, n, k, weights) note(mask, words, weights, NULL, NULL)
#define goGroupWords(mask, scales, zeros, count, words) note(mask, scales, zeros, words, NULL)
#define goSplitGroupWords(mask, words, count, scales, zeros) note(mask, words, scales, zeros, NULL)
#define goSumColumns(mask, b, rows, cols, ld, flags, sums) note(mask, b, sums, NULL, NULL)
#define goQuantizeInt4(mask, numbers, n, k, group, words, groups) note(mask, numbers, words, groups, NULL)
#define goPackFP4(mask, type, pairs, scales, scale, n, k, words, groups) \
	note(mask, pairs, scales, words, groups)
#define goUnpackFP4(mask, type, words, groups, n, k, pairs, scales, scale) \
	note(mask, words, groups, pairs, scales)
#define goPackCheckpoint(mask, format, qweight, qzeros, scales, n, k, group, words, groups) \
	note(mask, qweight, qzeros, scales, words)
#define goUnpackCheckpoint(mask, format, words, groups, n, k, group, qweight, qzeros, scales) \
	note(mask, words, groups, qweight, scales)
#define goClose(mask, handle) note(mask, NULL, NULL, NULL, NULL)
