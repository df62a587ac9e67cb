# make demo    set up what is missing, then plan and run a batch, verified
# make test    set up what is missing, then run the tests
# make green   make test, then notes in internal/sample/green.txt which texts passed: before a change of kernels lands
# make test-all  all cases, where make test draws a sample: before a release
# make check   what CI runs: formatting, vet, staticcheck, tidy, tests, race detector, vulnerabilities
# make browser-test  all tests of WebGPU in headless Chromium, on its software adapter: 15 minutes (BROWSER_FLAGS: of go test)
# make browser     builds the page of examples/browser and serves it: batches on the GPU of whoever opens it (ADDRESS)
# make window-check  the example with a window, a module of its own: vet, staticcheck, tidy, and its tests under Xvfb
# make fuzz    every fuzz target for FUZZTIME (60s); tests run the seeds alone
# make soak    random batches on every backend for SOAK (10m), with memory and handles flat
# make capi    the library for C: bin/libbatchgemm.so and bin/batchgemm.h, and the example bin/c-gemm
# make eager   what makes eager calls of batchgemm.torch faster, where the package finds it: bin/_eager.abi3.so
# make wheel   the package for Python, with both inside: bin/batchgemm-*.whl
# make sizes   fails when one of these, a program or the products have become heavy
# make install   that, and what finds it for pkg-config and CMake, below PREFIX (/usr/local), LIBDIR and DESTDIR
# make cuda    rebuild the CUDA kernels after a change of native/, where nvcc is
# make hip     rebuild the HIP kernels, where clang-19 and lld-19 are

GO          ?= go
FUZZTIME    ?= 60s
# Of a package; others may take the cores from it.
TIMEOUT     ?= 30m
# Where lavapipe keeps what it compiled of shaders, which CI may keep too.
export MESA_SHADER_CACHE_DIR ?= $(CURDIR)/bin/shaders
SOAK        ?= 10m
ADDRESS     ?= localhost:8080
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# A module of its own.
DESKTOP     := examples/desktop
# Flags of go test: vet is a target of its own, and nobody debugs these programs.
LIGHT       := -vet=off -ldflags=-s
# Code like that of libbatchgemm.so, which tests build too: whatever has these flags compiles a package once.
vet staticcheck test window-check sizes vulncheck: export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath -buildmode=pie)
comma       := ,
# Of the conformance suite in a browser, what make check runs: what needs few kernels, each of which takes
# Chromium's software adapter seconds to compile.
BROWSER_SHORT := Windows|NonFinite|Subnormals|Scalars|Empty|Reuse|Chain|Queued|Concurrent|Time|Buffers|StartRead|Copy|Compile|OutOfMemory|Cancelled|Foreign|Open|Close
# Tests of planner and wgsl that take seconds each and show of other builds what shorter ones do.
SAME        := TestKernelsListAll|TestManySteps|TestEveryTileOnce|TestEpiloguePlans|TestStoresStayInTile|TestLeastDeviceKernels|TestStagesCoverTiles|TestEpilogueStores|TestEpilogueBindings
# Packages with goroutines of their own, or with locks for those of callers, and a fake that works on them: HIP's has
# the same Go code below it as CUDA's. The race detector cannot see into the WebGPU library, and its build of the
# binding would take minutes; of planner the tests with goroutines, whose names say Concurrent, run alone.
RACE         = $(shell grep -rlE '\bsync\.[MWRCP]|\bgo func|\.Go\b' --include=*.go . | xargs -n1 dirname | sort -u | grep -vE '^\./(webgpu|cmd|examples|planner$$|native|internal/(browser|soak))') \
	./native/cuda
# What the race detector need not see: of the conformance suite what shows of numbers, and tests of numbers and of failures
# that few goroutines take part in.
NUMBERS     := Tiles|NewTile|Types|Epilogues|Groups|Gated|Blocks|Zeros|Spreads|Custom|Mixed|Ragged|Schedules|Update
CALM        := TestGuardPages|TestExp|TestManyBits|TestEveryCallFails|TestGEMMCancelledAtEveryLook|TestGEMMLooksWhilePacking|TestFake/every_call

.PHONY: demo build browser test test-all green check fmt vet vet-targets staticcheck tidy vulncheck variants browser-check browser-test window-check race fuzz soak bench golden capi eager install wheel wheel-check sizes cuda hip setup

demo: setup build
	bin/batchgemm devices
	bin/batchgemm plan inception-8
	bin/batchgemm run inception-8 --verify
	bin/batchgemm verify random:mn=96,k=96,batch=24,seed=1

# Without tables for debuggers, and what nothing calls of wgpu-native.
build:
	$(GO) build -ldflags "-s -w $(if $(filter Linux,$(shell uname -s)),-extldflags=-Wl$(comma)--gc-sections)" -o bin/ ./cmd/batchgemm

browser:
	GO=$(GO) scripts/page.sh bin/browser
	$(GO) run ./examples/browser/serve -address $(ADDRESS) bin/browser

# What takes longest begins first, so that none is left over at the end for one core.
test: TOOLS = clang
test: setup
	mkdir -p $(MESA_SHADER_CACHE_DIR)
	$(GO) test $(LIGHT) $(TEST_FLAGS) -timeout $(TIMEOUT) ./webgpu ./native ./native/... ./...

test-all: export BATCHGEMM_TESTS = all
test-all: TEST_FLAGS = -count=1
test-all: TIMEOUT = 3h
test-all: test vet-targets

green: test
	$(GO) run ./internal/sample/record

# WebGPU must run, on Mesa's software driver if need be, and in Chromium, and so must the compilers of the
# HIP kernels and of their emulation, and the disassembler, and windows under Xvfb: tests of these may not skip.
# Vulnerabilities come last, so that CI ends with it where nothing could be checked.
check: export BATCHGEMM_REQUIRE = webgpu,clang,arm64,chromium,window,python
check: setup
	$(MAKE) fmt tidy vet test
	$(MAKE) -j2 --output-sync=target staticcheck race browser-check window-check variants wheel-check sizes
	$(MAKE) vulncheck

fmt:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt needed:"; echo "$$out"; exit 1; }

# For other systems, and without cgo or some backends, types are checked, in tests too. What cgocall reads of a package
# may be gone where -trimpath shared it among checkouts: make vet-targets has this analyzer.
vet:
	$(GO) vet -cgocall=false ./...
	$(GO) test $(LIGHT) -run TestTargets ./internal/arch -targets

# What vet says of calls of C, and of builds for other systems and without some backends.
vet-targets:
	$(GO) vet -cgocall ./internal/... ./webgpu ./capi
	for tags in nocuda nohip nowebgpu; do $(GO) vet -tags $$tags ./dispatch ./webgpu ./native/cuda ./native/hip || exit; done
	$(GO) vet -tags nocuda,nohip,nowebgpu ./dispatch ./webgpu ./native/... ./cmd/... ./capi
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 GOOS=windows $(GO) vet ./dispatch ./webgpu ./cmd/...
	CGO_ENABLED=0 GOARCH=386 $(GO) vet ./dispatch ./webgpu ./internal/cpu
	CGO_ENABLED=0 GOOS=js GOARCH=wasm $(GO) vet ./dispatch ./webgpu ./examples/browser/...

staticcheck:
	$(GO) run $(STATICCHECK) ./...

tidy:
	$(GO) mod tidy -diff

vulncheck:
	@GO=$(GO) scripts/vulncheck.sh . $(DESKTOP)

# Tests of builds that a test of this one does not reach: without GPUs, with addresses of
# 32 bits, and the kernels of arm64, which an emulator runs.
variants:
	$(GO) test $(LIGHT) -trimpath -buildmode=pie -tags nocuda,nohip,nowebgpu -run TestTags ./dispatch
	GO=$(GO) scripts/test32.sh -skip '$(SAME)' ./planner ./wgsl ./internal/reference ./internal/npz ./internal/workload ./internal/codeobject
	GOARCH=arm64 CGO_ENABLED=0 $(GO) test -short -exec qemu-aarch64-static -run 'TestGuardPages|TestConformance/neon/(Scalars|NonFinite|Mixed)' ./internal/cpu

# Without the kernels of all tiles, types and epilogues, whose text other tests run on other adapters.
browser-check:
	GO=$(GO) scripts/browser.sh $(LIGHT) -count=1 -run 'InBrowser|TestConformance/($(BROWSER_SHORT))' ./webgpu
	GO=$(GO) scripts/browser.sh $(LIGHT) -count=1 -run InBrowser ./dispatch
	GO=$(GO) scripts/browser.sh $(LIGHT) -count=1 -run InBrowser ./wgsl

browser-test: setup
	GO=$(GO) scripts/browser.sh -v -count=1 -timeout 90m $(BROWSER_FLAGS) ./webgpu
	GO=$(GO) scripts/browser.sh -v -count=1 -run InBrowser ./dispatch

window-check:
	$(GO) -C $(DESKTOP) mod tidy -diff
	$(GO) -C $(DESKTOP) vet ./...
	$(GO) -C $(DESKTOP) run $(STATICCHECK) ./...
	$(GO) -C $(DESKTOP) test ./...

# The wheel in a virtual environment of its own, which has Debian's NumPy and pytest, on the CPU and on lavapipe.
wheel-check: export SOURCE_DATE_EPOCH = 1700000000
wheel-check: wheel
	GO=$(GO) scripts/wheel_check.sh

# The detector does not see what assembly and C read and write: plain Go stands for
# assembly.
race:
	$(GO) test $(LIGHT) -race -short -timeout $(TIMEOUT) -skip 'TestConformance/(amx|avx512|avx2|neon)|TestConformance/generic/($(NUMBERS))|TestFake/(conformance|gfx.*)/($(NUMBERS))|TestOwnDriver/($(NUMBERS))|$(CALM)' $(RACE)
	$(GO) test $(LIGHT) -race -run Concurrent ./planner

fuzz: setup
	GO=$(GO) scripts/fuzz.sh $(FUZZTIME)

soak: setup
	BATCHGEMM_SOAK=$(SOAK) $(GO) test -count=1 -timeout 0 -v -run TestSoak ./internal/soak

bench:
	$(GO) test -run xxx -bench . -benchmem ./planner ./wgsl ./internal/cpu

golden:
	$(GO) generate ./internal/tile ./native
	$(GO) test ./planner ./wgsl ./native ./internal/bench ./internal/report ./internal/results ./cmd/... -update

capi:
	GO=$(GO) scripts/capi.sh bin
	$(CC) -std=c99 -Wall -Wextra -o bin/c-gemm examples/c/gemm.c -Ibin -Lbin -lbatchgemm -Wl,-rpath,'$$ORIGIN'

eager:
	scripts/eager.sh bin

wheel:
	GO=$(GO) scripts/wheel.sh bin

sizes: wheel
	GO=$(GO) scripts/sizes.sh

install: capi
	scripts/install.sh bin

# PARTS: those that a change touches (scripts/cuda.sh).
cuda:
	scripts/cuda.sh .build/cuda
	scripts/pack.sh .build/cuda

hip:
	scripts/hip.sh .build/hip
	scripts/pack.sh .build/hip

setup:
	@scripts/setup.sh $(TOOLS)
