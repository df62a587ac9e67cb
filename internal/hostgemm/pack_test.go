package hostgemm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// operand places a matrix.
func operand(offset, ld int) planner.Matrix { return planner.Matrix{Offset: offset, LD: ld} }

func TestPack(t *testing.T) {
	problem := func(a, b, c planner.Matrix) planner.Problem {
		return planner.Problem{M: 3, N: 2, K: 4, A: a, B: b, C: c}
	}
	for _, c := range []struct {
		name    string
		batch   planner.Batch
		a, b, c []planner.Matrix // on the device
		sizes   [3]int
		moves   [3]int // uploads
	}{
		{
			name: "gaps are left out",
			batch: planner.Batch{
				problem(operand(10, 9), operand(100, 5), operand(7, 3)),
				problem(operand(90, 4), operand(0, 2), operand(50, 2)),
			},
			a: []planner.Matrix{operand(0, 4), operand(12, 4)},
			b: []planner.Matrix{operand(0, 2), operand(8, 2)},
			c: []planner.Matrix{operand(0, 2), operand(8, 2)}, sizes: [3]int{24, 16, 16},
			moves: [3]int{2, 2, 0},
		},
		{
			name: "a shared operand travels once",
			batch: planner.Batch{
				problem(operand(0, 9), operand(8, 2), operand(0, 2)),
				problem(operand(100, 9), operand(8, 2), operand(10, 2)),
				problem(operand(200, 9), operand(8, 2), operand(20, 2)),
			},
			a: []planner.Matrix{operand(0, 4), operand(12, 4), operand(24, 4)},
			b: []planner.Matrix{operand(0, 2), operand(0, 2), operand(0, 2)},
			c: []planner.Matrix{operand(0, 2), operand(8, 2), operand(16, 2)}, sizes: [3]int{36, 8, 24},
			moves: [3]int{3, 1, 0},
		},
		{
			name: "dense and overlapping operands stay as they are",
			batch: planner.Batch{
				problem(operand(5, 4), operand(4, 2), operand(0, 2)),
				problem(operand(9, 4), operand(12, 2), operand(6, 2)),
			},
			a: []planner.Matrix{operand(1, 4), operand(5, 4)},
			b: []planner.Matrix{operand(0, 2), operand(8, 2)},
			c: []planner.Matrix{operand(0, 2), operand(8, 2)}, sizes: [3]int{17, 16, 16},
			moves: [3]int{1, 1, 0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := pack(t.Context(), c.batch, &bare, everything(c.batch))
			require.NoError(t, err)
			for i, q := range p.batch {
				require.Equal(t, c.a[i], q.A)
				require.Equal(t, c.b[i], q.B)
				require.Equal(t, c.c[i], q.C)
			}
			require.Equal(t, c.sizes, [3]int(p.sizes[:3]))
			for i := range c.moves {
				require.Len(t, p.uploads[i], c.moves[i])
			}
			require.Len(t, p.results, len(c.batch))
			require.NoError(t, p.batch.Check(t.Context(), planner.Epilogue{},
				planner.Lengths{A: p.sizes[0], B: p.sizes[1], C: p.sizes[2]}))
		})
	}
}

func TestPackLeavesOut(t *testing.T) {
	full := planner.Problem{M: 2, N: 2, K: 2, A: operand(0, 2), B: operand(0, 2), C: operand(0, 2)}
	scale, stays, empty, updates := full, full, full, full
	scale.Alpha, scale.Beta = planner.Scale(0), 2
	stays.K, stays.Beta = 0, 1
	empty.N = 0
	updates.Beta = 1
	far := operand(math.MaxInt-100, 2)
	scale.A, scale.B = far, far // not read
	batch := planner.Batch{stays, scale, empty, updates, full}
	p, err := pack(t.Context(), batch, &bare, everything(batch))
	require.NoError(t, err)
	require.Len(t, p.batch, 3)
	require.Len(t, p.results, 3)
	require.Len(t, p.uploads[2], 2, "C only where it is read")
	require.Equal(t, [3]int{4, 4, 12}, [3]int(p.sizes[:3]))
	require.Equal(t, 4+4+8+12, p.moved())
	require.Empty(t, cutAll(t, planner.Batch{stays, empty}))
	require.Empty(t, cutAll(t, nil))
}

func cutAll(t *testing.T, batch planner.Batch) []*part {
	t.Helper()
	parts, err := cut(t.Context(), batch, &bare, everything(batch))
	require.NoError(t, err)
	return parts
}

func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	var problems []planner.Problem
	for range 3000 {
		problems = append(problems, planner.GEMM(1+rng.IntN(512), 1+rng.IntN(512), 1+rng.IntN(512)))
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	for _, n := range []int{1, 10, 100, 3000} {
		share := everything(batch[:n])
		total, found := 0, 0
		for _, i := range share {
			total += elements(&batch[i], &bare)
		}
		parts := cutAll(t, batch[:n])
		require.LessOrEqual(t, len(parts), maxParts+1)
		require.GreaterOrEqual(t, len(parts), min(total/(partSize+3*512*512), maxParts/2))
		for _, p := range parts {
			require.LessOrEqual(t, p.moved(), max(partSize, total/maxParts)+3*512*512+4*len(p.results)*3)
			found += len(p.results)
			require.Len(t, p.uploads[0], 1, "neighbours travel together")
		}
		require.Equal(t, n, found)
	}
}

// Large operands that many problems share are sent once: no parts.
func TestCutKeepsSharedOperandsTogether(t *testing.T) {
	var batch planner.Batch
	const n = 1000
	for i := range 60 {
		batch = append(batch, planner.Problem{M: 1, N: n, K: n,
			A: operand(i*n, n), B: operand(i%4*n*n, n), C: operand(i*n, n)})
	}
	parts := cutAll(t, batch)
	require.Len(t, parts, 1)
	require.Equal(t, 4*n*n+2*60*n, parts[0].moved())
	for i := range batch {
		batch[i].B.Offset = i * n * n
	}
	require.Greater(t, len(cutAll(t, batch)), maxParts/3)
}

// TestGEMMLayouts computes batches whose operands are shared, overlap, have gaps, or are in large stretches,
// with NaN in all gaps.
func TestGEMMLayouts(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name             string
		m, n, k, ld      int // ld: elements after a row
		stepA, stepB, at int // from one problem's operand to the next; first offset
	}{
		{"shared B", 17, 19, 23, 0, 17 * 23, 0, 0},
		{"shared B with gaps", 17, 19, 23, 3, 17 * 26, 0, 5},
		{"overlapping A", 16, 8, 8, 0, 8, 64, 3},
		{"columns of wide matrices", 33, 21, 40, 1000, 45, 30, 1},
		{"long rows", 3, 2, direct + 5, 1, 3 * (direct + 6), 3 * (direct + 6), 2},
		{"large matrices", 150, 4, 130, 0, 150*130 + 70, 130*4 + 8, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := openHost(t)
			rng := rand.New(rand.NewPCG(4, 0))
			var batch planner.Batch
			for i := range 6 {
				batch = append(batch, planner.Problem{M: c.m, N: c.n, K: c.k, Beta: float64(i % 2),
					TransB: i >= 3 && c.n == c.k,
					A:      operand(c.at+i*c.stepA, c.k+c.ld), B: operand(c.at+i*c.stepB, c.n+c.ld),
					C: operand(1+i*c.n, 6*c.n+1)})
			}
			need := batch.Lengths(planner.Epilogue{})
			a, b, host := slices.Repeat([]float32{nan}, need.A), slices.Repeat([]float32{nan}, need.B),
				slices.Repeat([]float32{nan}, need.C)
			for i := range batch {
				p := &batch[i]
				all := operandsOf(p, &bare)
				fill(rng, a, all[operandA])
				fill(rng, b, all[operandB])
				if p.Beta != 0 {
					fill(rng, host, all[operandC])
				}
			}
			before := slices.Clone(host)
			require.NoError(t, d.GEMM(t.Context(), batch, planner.Options{}, Operands{A: a, B: b, C: host}))
			_, err := reference.Check(batch, a, b, before, host)
			require.NoError(t, err)
		})
	}
}

func fill(rng *rand.Rand, s []float32, m matrix) {
	for row := range m.rows {
		reference.Uniform(rng, s[m.offset+row*m.ld:][:m.cols])
	}
}

// Problems that share B are cut into parts if these send less than a quarter more than the whole.
func TestCutOfSharedOperands(t *testing.T) {
	for _, c := range []struct {
		rows, parts int
	}{{512, 1}, {1024, 1}, {2048, 8}} { // 1.8, 1.4 and 1.2 times as much
		var batch planner.Batch
		for i := range 8 {
			batch = append(batch, planner.Problem{M: c.rows, N: 1024, K: 1024,
				A: planner.Matrix{Offset: i * c.rows * 1024, LD: 1024}, B: planner.Matrix{LD: 1024},
				C: planner.Matrix{Offset: i * c.rows * 1024, LD: 1024}})
		}
		parts, err := cut(t.Context(), batch, &bare, everything(batch))
		require.NoError(t, err)
		require.Len(t, parts, c.parts, c.rows)
	}
}
