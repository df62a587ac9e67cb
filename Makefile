# make demo    set up what is missing, then plan and run a batch, verified
# make test    set up what is missing, then run all tests
# make check   what CI runs: formatting, vet, staticcheck, tidy, tests, race detector
# make capi    the library for C: bin/libbatchgemm.so and bin/batchgemm.h, and the example bin/c-gemm
# make cuda    rebuild the CUDA kernels after a change of native/, where nvcc is
# make hip     rebuild the HIP kernels, where clang-19 and lld-19 are

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Pure-Go packages: the race detector cannot see into the WebGPU library, and its
# build of the binding would take minutes.
RACE        := ./planner/... ./wgsl/... ./native/... ./internal/... ./dispatch/... ./capi/...

.PHONY: demo build test check fmt vet staticcheck tidy race bench golden capi cuda hip setup

demo: setup build
	bin/batchgemm devices
	bin/batchgemm plan inception-8
	bin/batchgemm run inception-8 --verify
	bin/batchgemm verify random:mn=96,k=96,batch=24,seed=1

build:
	$(GO) build -o bin/ ./cmd/batchgemm

test: setup
	$(GO) test ./...

# WebGPU must run, on Mesa's software driver if need be, and so must the compilers
# of the HIP kernels and of their emulation: tests of these may not skip.
check: export BATCHGEMM_REQUIRE = webgpu,clang
check: setup fmt vet staticcheck tidy test race

fmt:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt needed:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet ./...

staticcheck:
	$(GO) run $(STATICCHECK) ./...

tidy:
	$(GO) mod tidy -diff

race:
	$(GO) test -race -short $(RACE)

bench:
	$(GO) test -run xxx -bench . -benchmem ./planner ./wgsl ./internal/cpu

golden:
	$(GO) test ./planner ./wgsl ./native ./internal/bench ./cmd/... -update

capi:
	GO=$(GO) scripts/capi.sh bin
	$(CC) -std=c99 -Wall -Wextra -o bin/c-gemm examples/c/gemm.c -Ibin -Lbin -lbatchgemm -Wl,-rpath,'$$ORIGIN'

cuda:
	scripts/cuda.sh

hip:
	scripts/hip.sh

setup:
	@scripts/setup.sh
