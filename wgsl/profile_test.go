package wgsl_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/wgsl"
)

var shaders = flag.String("shaders", "", "write the text of each kernel of the least device to this "+
	"directory")

// The limits that every device of WebGPU grants.
const (
	leastThreads = 256
	leastShared  = 16 << 10
	leastBinding = 128 << 20
	leastBuffers = 8 // storage buffers of a shader
	leastWorkers = 65535
	leastOffset  = 256 // alignment of offsets in buffers
)

// epilogues together have all parts of epilogues.
var epilogues = map[string]planner.Epilogue{
	"none":       {},
	"bias, ReLU": {Bias: true, Activation: planner.ReLU},
	"GELU":       {Activation: planner.GELU, Weights: true},
	"gather":     {GatherRows: 300, Activation: planner.SiLU},
	"scatter":    {ScatterRows: 300, Bias: true},
	"gated":      {Gated: true, Activation: planner.SiLU},
	"all": {Gated: true, Activation: planner.GELU, Bias: true, Weights: true,
		GatherRows: 300, ScatterRows: 300},
}

// eachOption runs a test for all types and epilogues.
func eachOption(t *testing.T, test func(t *testing.T, o planner.Options)) {
	d, err := devices.Lookup("webgpu-default")
	require.NoError(t, err)
	for _, of := range append([]element.Type{element.F32}, d.Types...) {
		for _, ofC := range elemtype.TypesC(of) {
			for name, e := range epilogues {
				if elemtype.Scaled(of) && ofC != element.F16 {
					e.ScaleA, e.ScaleB, e.ZeroA = planner.PerRow, planner.PerRow, elemtype.Whole(of) &&
						ofC == element.F32
				}
				t.Run(fmt.Sprintf("%s, C of %s, %s", of, ofC, name), func(t *testing.T) {
					test(t, planner.Options{TypeA: of, TypeC: ofC, Epilogue: e})
				})
				if of == element.E4M3 && ofC == element.F16 {
					e.ScaleA, e.ScaleB = planner.PerBlock, planner.PerBlock
					t.Run(fmt.Sprintf("%s, scales of blocks, C of %s, %s", of, ofC, name),
						func(t *testing.T) {
							test(t, planner.Options{TypeA: of, TypeC: ofC, Epilogue: e})
						})
				}
				if e.ScaleB = planner.PerGroup128; of.Bytes() == 2 {
					t.Run(fmt.Sprintf("%s, B of int4, C of %s, %s", of, ofC, name), func(t *testing.T) {
						test(t, planner.Options{TypeA: of, TypeB: element.Int4, TypeC: ofC, Epilogue: e})
					})
				}
			}
		}
	}
}

// A device with only what every device grants, and no optional feature, has all kernels.
func TestLeastDeviceKernels(t *testing.T) {
	d, err := devices.Lookup("webgpu-default")
	require.NoError(t, err)
	require.Equal(t, [4]int{leastThreads, leastShared, leastBinding, leastWorkers},
		[4]int{d.MaxThreads, d.GroupShared, d.MaxBinding, d.MaxWorkers})
	seen := map[encoding.Kernel]bool{}
	eachOption(t, func(t *testing.T, o planner.Options) {
		for bits := range 4 {
			trans := planner.Transposition{A: bits&1 != 0 && o.Epilogue.GatherRows == 0, B: bits&2 != 0}
			if o.TypeB == element.Int4 {
				trans = planner.Transposition{}
			}
			groups, err := planner.New(d).Kernels(o, trans, false)
			require.NoError(t, err)
			require.NotEmpty(t, groups)
			for _, g := range groups {
				for _, k := range g.Kernels {
					if !seen[k] && sample.Shaders.Drawn(k.String(), 1) {
						seen[k] = true
						requireLeast(t, k, wgsl.LimitsOf(d))
					}
				}
			}
		}
	})
	t.Logf("%d kernels", len(seen))
}

var (
	boundTo   = regexp.MustCompile(`@group\((\d+)\) @binding\(\d+\) var<(\w+)`)
	workgroup = regexp.MustCompile(`@workgroup_size\((\d+)\)`)
)

// requireLeast checks that the text of a kernel keeps the limits and needs no feature.
func requireLeast(t *testing.T, k encoding.Kernel, lim wgsl.Limits) {
	t.Helper()
	s, err := wgsl.Render(k, lim)
	require.NoError(t, err, k)
	require.LessOrEqual(t, s.SharedBytes, leastShared, k)
	require.LessOrEqual(t, s.Pieces, leastWorkers, k)
	for _, feature := range []string{"enable ", "requires ", ": f16", "<f16>", "subgroup", "push_constant"} {
		require.False(t, strings.Contains(s.Source, feature), "%v: %s", k, feature)
	}
	threads, err := strconv.Atoi(workgroup.FindStringSubmatch(s.Source)[1])
	require.NoError(t, err)
	require.LessOrEqual(t, threads, leastThreads, k)
	found := boundTo.FindAllStringSubmatch(s.Source, -1)
	require.LessOrEqual(t, len(found), leastBuffers, k)
	for _, f := range found {
		require.Equal(t, []string{"0", "storage"}, f[1:], k)
	}
	if *shaders != "" {
		name := fmt.Sprintf("%x.wgsl", sha256.Sum256([]byte(s.Source)))
		require.NoError(t, os.WriteFile(filepath.Join(*shaders, name), []byte(s.Source), 0o644))
	}
}

// Ragged plans of all forms, and plans of products larger than a binding, keep the limits.
func TestLeastDevicePlans(t *testing.T) {
	d, err := devices.Lookup("webgpu-default")
	require.NoError(t, err)
	eachOption(t, func(t *testing.T, o planner.Options) {
		ragged := planner.Ragged{Form: planner.EndsOfRows, Groups: 8, M: 300, N: 64, K: 32,
			A: planner.Matrix{LD: 32}, B: planner.Matrix{LD: 64}, C: planner.Matrix{LD: 64},
			B2: planner.Matrix{LD: 64}, StrideB: 64 * 32}
		packed := o.TypeB == element.Int4
		if packed {
			ragged.K, ragged.A.LD, ragged.StrideB = 128, 128, 128*64
		}
		plan, err := planner.New(d).PlanRagged(ragged, o)
		require.NoError(t, err)
		requirePlan(t, plan)
		for _, form := range []planner.RaggedForm{planner.EndsOfDepth, planner.Records} {
			if (packed || o.Epilogue.ScaleA == planner.PerBlock) && form == planner.EndsOfDepth {
				continue
			}
			r := ragged
			r.Form, r.StrideB, r.StrideC = form, 0, 300*64
			if form == planner.Records { // they have all of that
				r.A, r.B, r.C, r.B2, r.StrideC = planner.Matrix{}, planner.Matrix{}, planner.Matrix{},
					planner.Matrix{}, 0
			}
			plan, err := planner.New(d).PlanRagged(r, o)
			require.NoError(t, err)
			requirePlan(t, plan)
		}
		if o.Epilogue != (planner.Epilogue{}) {
			return
		}
		batch, err := planner.Pack(planner.GEMM(12000, 9000, 4000), planner.GEMM(20, 30, 40))
		require.NoError(t, err)
		plan, err = planner.New(d).Plan(t.Context(), batch, o)
		require.NoError(t, err)
		requirePlan(t, plan)
	})
}

func requirePlan(t *testing.T, plan *planner.Plan) {
	t.Helper()
	require.NotEmpty(t, plan.Launches)
	lim := wgsl.LimitsOf(plan.Device)
	for _, l := range plan.Launches {
		requireLeast(t, l.Kernel, lim)
		require.LessOrEqual(t, l.Count, leastWorkers)
		for _, x := range []struct {
			base, span int
			of         element.Type
		}{{l.BaseA, l.SpanA, l.TypeA}, {l.BaseB, l.SpanB, l.TypeB()}, {l.BaseB2, l.SpanB2, l.TypeB()},
			{l.BaseC, l.SpanC, l.TypeC}} {
			require.Zero(t, x.of.Size(x.base)%leastOffset)
			require.LessOrEqual(t, x.of.Size(x.span), leastBinding)
		}
	}
}
