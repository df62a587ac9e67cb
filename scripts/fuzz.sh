#!/bin/sh
# Runs every fuzz target of the repository for the time given, one after the other.
set -eu

grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
		echo "fuzz: $target of $(dirname "$file") for $1"
		# Go shrinks each input that reaches new code, for up to a minute, unless it is told not to.
		"${GO:-go}" test -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 1s "$(dirname "$file")"
	done
done
