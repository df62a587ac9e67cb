#!/bin/bash
# Builds the kernels of native/ for NVIDIA GPUs, and with clocks those of fp32 that internal/clocks has: needs nvcc, no GPU and no Go.
# 8 minutes on 16 cores. scripts/pack.sh makes products of them.
# Usage: [PARTS="ragged wgmma_int8"] scripts/cuda.sh DIRECTORY   (default: all parts)
set -euo pipefail
cd "$(dirname "$0")/../native"
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Parts of the kernels, of which native/lists has the kernels: what takes longest first.
parts=(wgmma_e4m3 wgmma_int8 aligned16 wgmma_boxes tensor_int8 tensor_e4m3 wgmma16 wgmma tensor plain int4 f64 ragged routing)
wanted=" ${PARTS:-${parts[*]}} "
for name in $wanted; do
	[[ " ${parts[*]} " == *" $name "* ]] || { echo "cuda.sh: no part $name (there are ${parts[*]})" >&2; exit 1; }
done
timed=" plain tensor wgmma " # have clocks too
flags="-std=c++17 -O3 -Werror all-warnings"
products=()
# compile ARCH PART FILE FLAGS... leaves the compiler's words in FILE.log.
compile() {
	local arch=$1 part=$2 file=$work/$3
	products+=("$3")
	shift 3
	# shellcheck disable=SC2086 # words are flags
	{ nvcc $flags -arch="$arch" -DBG_PART="$part" "$@" -o "$file" kernels.cu 2>"$file.log" || cat "$file.log" >&2; } &
}
everywhere=" ragged routing plain tensor tensor_e4m3 tensor_int8 int4 f64 " # the others have instructions of 9.0 alone
for part in "${parts[@]}"; do
	[[ $wanted == *" $part "* ]] || continue
	compile sm_90a "$part" "sm_90a_$part.cubin" -cubin --split-compile=0 -Xptxas -v
	[[ $everywhere == *" $part "* ]] || continue
	compile sm_80 "$part" "sm_80_$part.cubin" -cubin --split-compile=0 -Xptxas -v
	compile compute_80 "$part" "compute_80_$part.ptx" -ptx
done
wait
# With clocks. They are compiled as the products are: kernels of linked parts took up to three times as long.
for part in $timed; do
	[[ $wanted != *" $part "* ]] || compile sm_90a "$part" "clocks_sm_90a_$part.cubin" -cubin --split-compile=0 -DBG_CLOCKS
done
wait
(cd "$work" && ls "${products[@]}" >/dev/null) # stops when one is missing

# Nothing is loaded before a kernel of 9.0 has waited for the launch in front of it, but for items of early launches, which
# wait once more: nothing else is before that. Kernels that make items, and those of steps of a layer of experts, wait once. The
# former load bounds before that, which came from the host.
for file in "$work"/sm_90a_*.cubin; do cuobjdump -sass "$file"; done | awk '
	function ends() { if (name && waited < (name ~ /^bg_(ragged|route|combine|gate)/ ? 1 : 2)) { print name " waits " waited " times"; failed = 1 } }
	/Function :/ { ends(); name = $3; waited = 0; early = "" }
	/ACQBULK/ { if (early) { print name " does not wait:" early; failed = 1 } waited++ }
	/ (LDGSTS|STG|ST|ATOM|ATOMG|RED|REDG|UTMALDG|UBLKCP)[. ]/ { early = $0 }
	/ (LDG|LDGSTS|LD|STG|ST|ATOM|ATOMG|RED|REDG|UTMALDG|UBLKCP)[. ]/ && !waited && (name !~ /^bg_ragged/ || !/ (LDG|LD)[. ]/) { print name " loads before it waits:" $0; failed = 1 }
	END { ends(); exit failed || !name }' >&2

# The text uses nothing newer than PTX 7.0, the first version that knows sm_80, so
# that drivers of CUDA 11 on load it. The pragma is a hint of newer compilers.
for file in "$work"/compute_80_*.ptx; do
	[ ! -e "$file" ] || sed -i -e 's/^\.version .*/.version 7.0/' -e '/\.pragma "used_bytes_mask/d' "$file"
done

# What each kernel takes: arch, part, kernel, registers, bytes of shared memory, bytes spilled.
for log in "$work"/sm_*.cubin.log; do
	IFS=_ read -r sm number part <<<"$(basename "$log" .cubin.log)"
	awk -v arch="${sm}_$number" -v part="$part" '
		/Function properties for/ { name = $NF }
		/spill stores/ { spills = $5 + $9 }
		/Used .* registers/ {
			shared = 0
			for (i = 1; i < NF; i++) { if ($i == "Used") registers = $(i+1); if ($(i+1) == "bytes" && $(i+2) ~ /^smem/) shared = $i }
			printf "%s\t%s\t%s\t%d\t%d\t%d\n", arch, part, name, registers, shared, spills
		}' "$log"
done >"$work/resources.tsv"
(cd "$work" && mv resources.tsv "${products[@]}" "$out")
{
	nvcc --version | sed -n 's/^Cuda compilation tools, /# nvcc /p'
	../scripts/sources.sh cuda
} >"$out/MANIFEST"
