#!/bin/bash
# Makes products of what scripts/cuda.sh or scripts/hip.sh built: packs it into native/products and internal/clocks, and writes the
# manifests there. Where a part was built, the other products stay, which must be of the same compiler and of text that makes the same
# of them. All architectures of AMD are packed together. Needs zstd and Go; what it writes differs between versions of it, and unpacks to the same.
# Without a directory it writes the hashes of text alone anew, for text that changed and makes the same products.
# Usage: scripts/pack.sh [DIRECTORY]
set -euo pipefail
[ $# = 0 ] || built=$(realpath "$1")
cd "$(dirname "$0")/../native/products"
clocks=../../internal/clocks

if [ $# = 0 ]; then
	for of in "MANIFEST cuda" "HIP-MANIFEST hip"; do
		read -r manifest kind <<<"$of"
		{ head -n 1 "$manifest" && ../../scripts/sources.sh "$kind" && grep '  products/' "$manifest"; } >"$manifest.new"
		mv "$manifest.new" "$manifest"
	done
	exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${GO:-go}" build -o "$work/packcode" ../internal/kernels/packcode

# base has the product that another is packed after: both are built, or neither.
declare -A base
bases=$("$work/packcode")
while read -r name of; do base[$name]=$of; done <<<"$bases"
for name in "${!base[@]}"; do
	for other in "$name ${base[$name]}" "${base[$name]} $name"; do
		read -r here there <<<"$other"
		[ ! -e "$built/$here" ] || [ -e "$built/$there" ] || { echo "pack.sh: $here without $there" >&2; exit 1; }
	done
done
for arch in gfx908 gfx90a gfx942 gfx1030 gfx1100; do
	[ ! -e "$built/HIP-MANIFEST" ] || [ -e "$built/$arch.co" ] || { echo "pack.sh: no $arch.co" >&2; exit 1; }
done

# Kernels repeat megabytes apart.
mkdir "$work/code"
find "$built" -name '*.cubin' -o -name '*.ptx' -o -name '*.co' | while read -r file; do
	"$work/packcode" "$file" "$work/code/$(basename "$file")"
done
for file in "$work"/code/*; do
	name=$(basename "$file")
	to=$name.zst
	[[ $name != clocks_* ]] || to=$clocks/${to#clocks_}
	after=()
	[ -z "${base[$name]:-}" ] || after=(--patch-from="$work/code/${base[$name]}")
	zstd -qq -f -19 --long=27 -T1 "${after[@]}" "$file" -o "$to" </dev/null
done

# merge TABLE N: of what was built, which the first N columns name, the rows are new.
merge() {
	[ -e "$built/$1" ] || return 0
	awk -v n="$2" '{ key = n == 1 ? $1 : $1 " " $2 } FNR == NR { made[key]; print; next } !(key in made)' "$built/$1" "$1" | LC_ALL=C sort >"$1.new"
	mv "$1.new" "$1"
}
merge resources.tsv 2
merge hip-occupancy.tsv 1

# list MANIFEST FILES...: for sha256sum -c in native/.
list() {
	[ -e "$built/$1" ] || return 0
	cmp -s <(head -n 1 "$1") <(head -n 1 "$built/$1") || echo "pack.sh: another compiler than that of $1: build all" >&2
	local manifest=$1
	shift
	{
		cat "$built/$manifest"
		sha256sum "$@" | sed 's|  |  products/|'
	} >"$manifest.new"
	mv "$manifest.new" "$manifest"
}
export LC_ALL=C
list MANIFEST sm_*.zst compute_*.zst resources.tsv
list HIP-MANIFEST gfx*.co.zst hip-occupancy.tsv
