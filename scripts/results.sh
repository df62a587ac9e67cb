#!/bin/sh
# Measures what docs/results.md tells, on a machine with an NVIDIA GPU; needs no Go.
# Usage: scripts/results.sh OUT [STEP...]      all steps by default, in this order:
#   machine sweep halves beyond schedules schedules-webgpu overhead tlp threads latency inception emulation accuracy stream-k occupancy
#
# Leaves OUT/results.tar, complete after each step; steps of a later call replace or
# add to what is in it. Then, where Go is:  go run ./internal/results OUT
# which writes the tables of docs/results.md and draws the picture of README.md.
#
# Wants bin/batchgemm and bin/libbatchgemm.so (make build capi), and for some steps
# nvcc (latency), python3 with PyTorch (inception), ncu (occupancy); what is missing is
# left out. BATCHGEMM names another binary, BACKEND another backend. QUICK=1 takes a few
# small batches and no care, to try the script.
set -u

[ $# -ge 1 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
steps="machine sweep halves beyond schedules schedules-webgpu overhead tlp threads latency inception emulation accuracy stream-k occupancy"
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit 1
shift
for step in "$@"; do
	case " $steps " in *" $step "*) ;; *) echo "results.sh: no step $step, but: $steps" >&2; exit 2 ;; esac
done
export BATCHGEMM="${BATCHGEMM:-$root/bin/batchgemm}" BATCHGEMM_LIBRARY="$root/bin/libbatchgemm.so"
export BATCHGEMM_CACHE=off PYTHONDONTWRITEBYTECODE=1
backend=${BACKEND:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/shapes" "$work/results"
[ ! -f "$out/results.tar" ] || tar -xf "$out/results.tar" -C "$work/results" || exit 1
cd "$work/shapes" || exit 1 # workloads of our own are files here

if [ -n "${QUICK:-}" ]; then
	repeat=1 sweep="zhang-128-128-8 zhang-128-256-8" batches="8 16" threads="zhang-128-128-8"
	long="2 8 8 512" many=16 large=64 depths="16 64" singles=64 equals="2x32" rows="16 48" inner="64 200" modules="inception-8" small="1x16 4x16"
	profiled="zhang-128-128-8" most=2e8
else
	repeat=5 sweep=zhang batches="8 16 32 64 128 256 512 1024"
	threads="zhang-128-128-8 zhang-128-128-64 zhang-128-128-256 zhang-128-1024-8 zhang-128-1024-64 zhang-128-1024-256
		zhang-512-128-8 zhang-512-128-64 zhang-512-128-256 zhang-512-1024-8 zhang-512-1024-64 zhang-512-1024-256"
	long="8 64 64 8192" many=4096 large=1024
	depths="16 64 256 1024 4096 16384" singles="1024 2048 4096" equals="256x128 64x256 64x512 16x1024"
	# Sizes of single products, evenly spread on a log scale and no powers of two.
	rows="128 264 544 1120 2304" inner="128 360 1016 2872 8128" most=8e9
	modules="inception-1 inception-2 inception-3 inception-4 inception-5 inception-6 inception-7 inception-8 inception-9"
	small="1x16 8x16 8x32 32x32 8x64 64x64 256x64"
	profiled="zhang-128-128-8 zhang-128-1024-64 zhang-256-256-64 zhang-512-128-256 zhang-512-1024-256"
fi

say() { echo "   $*" >&2; }

# limited COMMAND... runs it for the rest of the step's time at most.
limited() {
	left=$((deadline - $(date +%s)))
	[ "$left" -gt 0 ] || { say "no time left"; return 124; }
	timeout "$left" "$@"
}

# keep NAME COMMAND... keeps what a command prints as the result NAME, and tells $shown.
# A command that fails may have printed results too: bench does where one of them is wrong.
keep() {
	name=$1
	shift
	say "$shown"
	limited "$@" >"$work/new" || say "exit code $?"
	[ -s "$work/new" ] || return 1
	mv "$work/new" "$work/results/$name"
}

# bench NAME WORKLOADS OPTION... has the workloads as one word.
bench() {
	name=$1 workloads=$2
	shift 2
	# shellcheck disable=SC2086 # words are workloads
	set -- $workloads "$@"
	count=$(echo $workloads | wc -w)
	shown="batchgemm bench $*"
	[ "$count" -le 4 ] || shown="batchgemm bench ${workloads%% *} ... $(shift $((count - 1)) && echo "$*")"
	keep "$name.json" "$BATCHGEMM" bench --backend "$backend" --repeat "$repeat" --json "$@"
}

# batch FILE COUNT M N K writes a workload of equal problems.
batch() {
	awk -v n="$2" -v line="$3 $4 $5" 'BEGIN { for (i = 0; i < n; i++) print line }' >"$1"
}

has() {
	command -v "$1" >/dev/null 2>&1 || { say "left out: no $1"; return 1; }
}

step_machine() {
	shown="nvidia-smi"
	has nvidia-smi && keep machine.csv nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,memory.total --format=csv
	shown="batchgemm devices"
	keep devices.json "$BATCHGEMM" devices --json
}

step_sweep() {
	bench sweep "$sweep" --vs cublas-grouped,cublas-loop,cublas-graph,f32,webgpu
}

# The sweep in bf16, and its sizes rounded up to multiples of 8.
step_halves() {
	bench halves "$sweep" --type bf16 --vs cublas-padded
	awk '$2 == "case" { close(to); to = "rounded-" $3 "-" $4 "-" $5; next } /^#/ || !NF { next }
		{ for (i = 1; i <= 3; i++) $i = int(($i + 7) / 8) * 8; print > to }' "$root/internal/workload/data/zhang-sweep.txt"
	loads=$(ls rounded-*)
	[ "$sweep" = zhang ] || loads=$(for load in $sweep; do echo "rounded-${load#zhang-}"; done)
	bench halves-rounded "$(echo $loads)" --type bf16 --vs cublas-grouped
}

# Few long sums, many tiny products (sizes by Park and Miller's generator), one large
# product among small ones.
step_beyond() {
	# shellcheck disable=SC2086 # words are numbers
	batch "$(echo $long | tr ' ' x)" $long
	awk -v n="$many" 'function size() { s = s * 16807 % 2147483647; return 8 + s % 25 }
		BEGIN { s = 1; for (i = 0; i < n; i++) print size(), size(), size() }' >"${many}x8..32"
	{ echo "$large $large $large" && awk 'BEGIN { for (i = 0; i < 255; i++) print 32, 32, 32 }'; } >"$large+255x32"
	bench beyond "$(echo $long | tr ' ' x) ${many}x8..32 $large+255x32" --vs cublas-grouped,cublas-loop,cublas-graph,f32,webgpu
}

step_schedules() {
	bench schedules "$sweep" --regret
}

step_schedules_webgpu() {
	bench schedules-webgpu "$sweep" --backend webgpu --regret
}

step_overhead() {
	loads=""
	for sizes in mn=128,k=128 mn=512,k=512; do
		for count in $batches; do loads="$loads random:$sizes,batch=$count,seed=1"; done
	done
	bench overhead "${loads# }" --live
}

step_tlp() {
	bench tlp3 "$sweep" --compute f32 --rule zhang2025 --tlp 3
	bench tlp4 "$sweep" --compute f32 --rule zhang2025 --tlp 4
}

step_threads() {
	bench threads "$(echo $threads)" --compute f32 --regret
}

step_latency() {
	has nvcc || return
	limited nvcc -std=c++17 -O2 -arch=native -I"$root/bin" -o "$work/latency" "$root/scripts/latency.cu" \
		-L"$root/bin" -lbatchgemm -Xlinker -rpath="$root/bin" || return
	shown="latency $small"
	# shellcheck disable=SC2086 # words are batches
	keep latency.csv "$work/latency" $small
}

step_inception() {
	bench inception-bench "$modules" --vs cublas-grouped,cublas-graph,f32
	has python3 && limited python3 -c "import torch" || { say "left out: no PyTorch"; return; }
	cpu=""
	[ "$backend" = cuda ] || cpu=--cpu
	shown="python3 examples/python/inception.py"
	# shellcheck disable=SC2086 # words are options and workloads
	keep inception.json env PYTHONPATH="$root/python" python3 "$root/examples/python/inception.py" $cpu $modules
}

step_emulation() {
	loads=""
	for size in $singles; do batch "1x$size" 1 "$size" "$size" "$size" && loads="$loads 1x$size"; done
	for b in $equals; do
		size=${b#*x}
		batch "$b" "${b%x*}" "$size" "$size" "$size" && loads="$loads $b"
	done
	bench emulation "${loads# }" --vs f32,cublas-graph,cublas-grouped
	bench emulation-tf32 "${loads# }" --compute tf32
}

step_accuracy() {
	loads=""
	for k in $depths; do batch "128x128x$k" 1 128 128 "$k" && loads="$loads 128x128x$k"; done
	kinds="uniform positive mixed cancelling tiny huge"
	for kind in $kinds; do
		bench "accuracy-$kind" "${loads# }" --vs f32,cublas-graph --data "$kind"
		bench "accuracy-tf32-$kind" "${loads# }" --compute tf32 --data "$kind"
	done
}

step_stream_k() {
	loads=""
	for m in $rows; do for n in $rows; do for k in $inner; do
		[ "$m" -le "$n" ] || continue
		awk "BEGIN { exit !(2.0 * $m * $n * $k <= $most) }" || continue
		batch "${m}x${n}x$k" 1 "$m" "$n" "$k" && loads="$loads ${m}x${n}x$k"
	done; done; done
	bench stream-k-f32 "${loads# }" --compute f32 --tile large-8x4 --regret --vs cublas-graph
	bench stream-k-emulated "${loads# }" --tile wgmma-128x64 --regret --vs cublas-graph
	bench stream-k-auto "${loads# }" --vs f32,cublas-graph
}

# The first kernels of bench are each method's first runs, so that a few dozen tell.
step_occupancy() {
	has ncu || return
	metrics=sm__warps_active.avg.pct_of_peak_sustained_active,sm__maximum_warps_per_active_cycle_pct
	metrics=$metrics,smsp__issue_active.avg.per_cycle_active,gpu__time_duration.sum
	profile="ncu --csv --print-units base --clock-control none --kill yes --metrics $metrics"
	for load in $profiled; do
		for part in "chosen 24 --vs f32,cublas-grouped" "zhang2025 48 --compute f32 --rule zhang2025 --vs cublas-loop"; do
			name=${part%% *} rest=${part#* }
			shown="ncu -c ${rest%% *} --kill yes batchgemm bench $load ${rest#* } --repeat 1"
			# shellcheck disable=SC2086 # words are options
			keep "occupancy-$name-$load.csv" $profile -c ${rest%% *} "$BATCHGEMM" bench "$load" --backend "$backend" ${rest#* } --repeat 1
		done
	done
}

# limit STEP is the time it may take, in seconds: about twice what it should on an H200
# with 16 cores. The cores' part is to check the results.
limit() {
	case $1 in
	sweep | halves | schedules | schedules-webgpu | stream-k) echo 180 ;;
	tlp) echo 150 ;;
	machine | overhead | latency) echo 60 ;;
	*) echo 100 ;;
	esac
}

began=$(date +%s)
for step in ${*:-$steps}; do
	now=$(date +%s)
	deadline=$((now + $(limit "$step")))
	echo "== $step (at most $(limit "$step") s)" >&2
	"step_$(echo "$step" | tr - _)"
	(cd "$work/results" && tar -cf "$out/new.tar" -- *) && mv "$out/new.tar" "$out/results.tar"
	say "$step took $(($(date +%s) - now)) s"
done
echo "== $(($(date +%s) - began)) s; $out/results.tar has $(tar -tf "$out/results.tar" | wc -l) files" >&2
