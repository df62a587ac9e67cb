// What a run of a small batch takes beside an empty kernel: as a node of a CUDA
// graph, until the call returns, and until the stream is idle. Writes CSV, times in
// microseconds (medians). scripts/results.sh builds and runs it.
//
//     latency PROBLEMSxSIZE...      as 8x32: 8 products of 32x32x32
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <cuda_runtime.h>

#include "batchgemm.h"

static void cuda(cudaError_t e) {
	if (e != cudaSuccess) fprintf(stderr, "latency: %s\n", cudaGetErrorString(e)), exit(1);
}
static void bg(bg_status s) {
	if (s != BG_OK) fprintf(stderr, "latency: %s\n", bg_last_error()), exit(1);
}

using queue = std::function<void()>; // puts one execution in the stream
static cudaStream_t stream;

static double now() { // microseconds
	return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double median(std::vector<double> v) {
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

// node is the time of one of many copies in a graph.
static double node(const queue &run) {
	const int copies = 500, samples = 11;
	const double warm_up = 300e3; // an idle H200 needs some 200 ms to reach its clock
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaEvent_t start, end;
	cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < copies; i++) run();
	cuda(cudaStreamEndCapture(stream, &graph));
	cuda(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	cuda(cudaEventCreate(&start));
	cuda(cudaEventCreate(&end));
	for (double began = now(); now() - began < warm_up;) {
		cuda(cudaGraphLaunch(exec, stream));
		cuda(cudaStreamSynchronize(stream));
	}
	std::vector<double> times;
	for (int i = 0; i < samples; i++) {
		float ms;
		cuda(cudaGraphLaunch(exec, stream)); // keeps the device busy while the others are queued
		cuda(cudaEventRecord(start, stream));
		cuda(cudaGraphLaunch(exec, stream));
		cuda(cudaEventRecord(end, stream));
		cuda(cudaEventSynchronize(end));
		cuda(cudaEventElapsedTime(&ms, start, end));
		times.push_back(1e3 * ms / copies);
	}
	cuda(cudaEventDestroy(start));
	cuda(cudaEventDestroy(end));
	cuda(cudaGraphExecDestroy(exec));
	cuda(cudaGraphDestroy(graph));
	return median(times);
}

static void report(const char *what, int problems, int size, const queue &run) {
	const int warm_up = 200, samples = 2000;
	run(); // what is loaded late is loaded now
	cuda(cudaStreamSynchronize(stream));
	double in_graph = node(run);
	std::vector<double> call, complete;
	for (int i = 0; i < warm_up + samples; i++) {
		double start = now();
		run();
		double returned = now();
		cuda(cudaStreamSynchronize(stream));
		if (i < warm_up) continue;
		call.push_back(returned - start);
		complete.push_back(now() - start);
	}
	printf("%s,%d,%d,%.3f,%.3f,%.3f\n", what, problems, size, in_graph, median(call), median(complete));
}

__global__ void empty() {}

static void batch(bg_device device, int count, int size) {
	std::vector<bg_problem> problems(count);
	int64_t square = int64_t(size) * size, all = count * square;
	for (int i = 0; i < count; i++) {
		problems[i] = {sizeof(bg_problem), 0, size, size, size, i * square, size, i * square, size, i * square, size, 1, 0};
	}
	bg_plan plan;
	bg_program program;
	bg_buffer buffers[3];
	bg(bg_plan_new(device, problems.data(), count, nullptr, &plan));
	bg(bg_prepare(device, plan, &program));
	bg(bg_close(plan));
	std::vector<float> ones(all, 1);
	for (bg_buffer &b : buffers) {
		bg(bg_buffer_new(device, all, &b));
		bg(bg_buffer_write(b, 0, ones.data(), all, BG_NO_TIMEOUT));
	}
	report("batchgemm", count, size, [&] { bg(bg_run(program, buffers[0], buffers[1], buffers[2])); });
	bg(bg_buffer_read(buffers[2], 0, ones.data(), all, BG_NO_TIMEOUT));
	for (float x : ones) {
		if (x != float(size)) fprintf(stderr, "latency: %dx%d: wrong result\n", count, size), exit(1);
	}
	for (bg_buffer b : buffers) bg(bg_close(b));
	bg(bg_close(program));
}

int main(int argc, char **argv) {
	bg_device opened, device;
	cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	bg(bg_open("cuda", 0, &opened));
	bg(bg_open_on_stream(opened, uintptr_t(stream), &device));
	puts("what,problems,size,node_us,call_us,complete_us");
	report("empty kernel", 0, 0, [] { empty<<<1, 32, 0, stream>>>(); });
	cuda(cudaGetLastError());
	for (int i = 1; i < argc; i++) {
		int count, size;
		if (sscanf(argv[i], "%dx%d", &count, &size) != 2 || count < 1 || size < 1) {
			fprintf(stderr, "latency: %s is not PROBLEMSxSIZE\n", argv[i]);
			return 2;
		}
		batch(device, count, size);
	}
	bg(bg_close(device));
	bg(bg_close(opened));
	cuda(cudaStreamDestroy(stream));
	return 0;
}
