package native

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fragmentProgram prints what each lane holds, and how the numbers of its input (bits of fp32, one a line)
// are split.
const fragmentProgram = `
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define BG_DEVICE inline
inline uint32_t __float_as_uint(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
inline float __uint_as_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
#include "ptx/mma.cuh"
int main() {
  for (uint32_t l = 0; l < 32; ++l) {
    const FragmentLane lane(l);
    for (int e = 0; e < FragmentA::kElements; ++e) printf("A %u %d %u %u\n", l, e,
    	lane.group + FragmentA::row(e), lane.member + FragmentA::k(e));
    for (int e = 0; e < FragmentB::kElements; ++e) printf("B %u %d %u %u\n", l, e,
    	lane.member + FragmentB::k(e), lane.group);
    for (int e = 0; e < FragmentC::kElements; ++e) printf("C %u %d %u %u\n", l, e,
    	lane.group + FragmentC::row(e), 2 * lane.member + FragmentC::column(e));
  }
  uint32_t bits;
  while (scanf("%u", &bits) == 1) {
    const ScaledSplit s(__uint_as_float(bits));
    printf("split %u %u %u\n", bits, s.hi, s.lo);
  }
  printf("scale %a %a\n", kSplitScale, kProductScale);
}
`

// runFragment compiles the program as host C++ and returns its lines.
func runFragment(t *testing.T, input string) []string {
	t.Helper()
	compiler, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++")
	}
	source, program := filepath.Join(t.TempDir(), "fragment.cpp"), filepath.Join(t.TempDir(), "fragment")
	require.NoError(t, os.WriteFile(source, []byte(fragmentProgram), 0o644))
	out, err := exec.Command(compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-I.", "-o",
		program, source).CombinedOutput()
	require.NoError(t, err, string(out))
	run := exec.Command(program)
	run.Stdin = strings.NewReader(input)
	out, err = run.Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestFragmentLayout compares with the formulas of the PTX ISA, "Matrix Fragments
// for mma.m16n8k8" (.tf32): groupID = lane >> 2, threadID_in_group = lane % 4.
func TestFragmentLayout(t *testing.T) {
	var want []string
	for lane := range 32 {
		group, member := lane>>2, lane%4
		for e := range 4 {
			row, col := group, member
			if e == 1 || e == 3 {
				row += 8
			}
			if e >= 2 {
				col += 4
			}
			want = append(want, fmt.Sprintf("A %d %d %d %d", lane, e, row, col))
		}
		for e := range 2 {
			want = append(want, fmt.Sprintf("B %d %d %d %d", lane, e, member+4*e, group))
		}
		for e := range 4 {
			row := group
			if e >= 2 {
				row += 8
			}
			want = append(want, fmt.Sprintf("C %d %d %d %d", lane, e, row, member*2+e&1))
		}
	}
	lines := runFragment(t, "")
	require.Equal(t, want, lines[:len(lines)-1])
	require.Equal(t, "scale 0x1p+13 0x1p-26", lines[len(lines)-1])
}

// tf32 returns what tensor cores see of a number: 10 bits after the point.
func tf32(bits uint32) float64 { return float64(math.Float32frombits(bits &^ 0x1fff)) }

func TestScaledSplit(t *testing.T) {
	const scale = 8192
	cases := []struct {
		name   string
		x      float32
		finite bool
	}{
		{"zero", 0, true},
		{"minus zero", float32(math.Copysign(0, -1)), true},
		{"one", 1, true},
		{"all bits", math.Float32frombits(0x3fffffff), true},
		{"tie of hi", math.Float32frombits(0x3f801000), true},
		{"largest lo", math.Float32frombits(0x3f800fff), true},
		{"negative", -1.2345678, true},
		{"carry into the exponent", math.Float32frombits(0x3ffff000), true},
		{"smallest subnormal", math.SmallestNonzeroFloat32, true},
		{"largest subnormal", math.Float32frombits(0x007fffff), true},
		{"smallest normal", math.Float32frombits(0x00800000), true},
		{"all bits, smallest exponent", math.Float32frombits(0x00ffffff), true},
		{"low part would be subnormal", math.Float32frombits(0x09abcdef), true},
		{"largest that splits", math.Float32frombits(0x78ffefff), true},
		{"2^115", 0x1p115, false},
		{"largest", math.MaxFloat32, false},
		{"infinity", float32(math.Inf(1)), false},
		{"minus infinity", float32(math.Inf(-1)), false},
		{"NaN", float32(math.NaN()), false},
		{"NaN of all bits", math.Float32frombits(0x7fffffff), false},
	}
	var input strings.Builder
	for _, c := range cases {
		fmt.Fprintln(&input, math.Float32bits(c.x))
	}
	lines := runFragment(t, input.String())
	lines = lines[len(lines)-1-len(cases) : len(lines)-1]
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var bits, hi, lo uint32
			_, err := fmt.Sscanf(lines[i], "split %d %d %d", &bits, &hi, &lo)
			require.NoError(t, err)
			require.Equal(t, math.Float32bits(c.x), bits)
			if !c.finite { // a product of the split parts with anything, even zero, is infinite or NaN
				product := math.Abs(tf32(lo))
				require.True(t, math.IsNaN(product) || math.IsInf(product, 0), "lo %x", lo)
				return
			}
			x := scale * float64(c.x)
			require.Zero(t, hi&0x1fff)
			require.Equal(t, x, tf32(hi)+float64(math.Float32frombits(lo)), "hi + lo")
			require.LessOrEqual(t, math.Abs(tf32(lo)), math.Abs(x)*0x1p-11,
				"lo is half of the last place of hi")
			require.LessOrEqual(t, math.Abs(tf32(hi)+tf32(lo)-x), math.Abs(x)*0x1p-22,
				"what the tensor cores see")
		})
	}
}
