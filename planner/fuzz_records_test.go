package planner

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// anyEpilogue draws an epilogue.
func (t *tape) anyEpilogue() (e Epilogue) {
	bits := t.byte()
	e = Epilogue{Bias: bits&1 != 0, Gated: bits&2 != 0, Weights: bits&4 != 0,
		Pointers: Pointers{A: bits&8 != 0, B: bits&16 != 0, C: bits&32 != 0}}
	if bits&64 != 0 {
		e.GatherRows = 1 + t.upTo(40)
	}
	if bits&128 != 0 {
		e.ScatterRows = 1 + t.upTo(40)
	}
	if t.byte()%2 == 1 {
		e.ScaleA, e.ScaleB = pick(t, "", PerRow, PerTensor), pick(t, "", PerRow, PerTensor)
		if t.byte()%3 == 1 {
			e.ScaleA, e.ScaleB = PerBlock, PerBlock
		}
		e.ZeroA = e.ScaleA != "" && e.ScaleB == PerRow && t.byte()%2 == 1
	}
	return e
}

// word returns a small number, one near the end of 32 or 31 bits, or any.
func (t *tape) word() uint32 {
	switch near := uint32(t.byte()); t.byte() % 8 {
	case 0:
		return -near
	case 1:
		return 1<<31 - near
	case 2:
		return 2 * uint32(t.upTo(math.MaxInt32))
	default:
		return near / 2
	}
}

// FuzzRecords: for all records, a group that is not refused stays within the lengths. A refused one does
// not, or has too many rows.
func FuzzRecords(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 300 {
		f.Add(randomTape(rng, 40+rng.IntN(300)).data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &tape{data}
		e, bits := in.anyEpilogue(), in.byte()
		r := Ragged{Form: Records, Groups: 1 + int(bits%5), M: in.upTo(200), N: in.upTo(60), K: in.upTo(60),
			TransA: bits&64 != 0 && e.GatherRows == 0, TransB: bits&128 != 0,
			LenA: in.upTo(4000), LenB: in.upTo(4000), LenC: in.upTo(4000), LenB2: in.upTo(4000),
			LenBias: in.upTo(200), LenRows: in.upTo(300)}
		require.NoError(t, r.check(&e))
		n := e.kernel().RecordWords(0)
		words := make([]int32, r.Groups*n)
		for i := range words {
			words[i] = int32(in.word())
		}
		b, refused := r.Batch(nil, words, Options{Epilogue: e})
		left := r.M
		for g, q := range b {
			if refused >= 0 && g > refused {
				require.Zero(t, q.M, "it is after one that is refused")
				continue
			}
			told := recordOf(&r, words[g*n:][:n])
			left -= told.M
			fits := uint(told.M) <= uint(r.M) && uint(told.N) <= uint(r.N) && uint(told.K) <= uint(r.K) &&
				left >= 0 && r.keeps(t, told, e)
			require.Equal(t, fits, g != refused, "group %d: %+v", g, told)
			if fits {
				require.Equal(t, math.Float32bits(float32(told.Beta)), math.Float32bits(float32(q.Beta)))
				told.Beta, q.Beta = 0, 0 // NaN does not equal itself
				require.Equal(t, told, q)
			} else {
				require.Zero(t, q.M)
			}
		}
	})
}

// recordOf returns the problem that a record describes.
func recordOf(r *Ragged, words []int32) Problem {
	w := func(i encoding.RecordWord) int {
		if int(i) >= len(words) {
			return 0
		}
		return int(uint32(words[i]))
	}
	return Problem{M: w(encoding.RecordM), N: w(encoding.RecordN), K: w(encoding.RecordK), TransA: r.TransA,
		TransB: r.TransB,
		Alpha:  Scale(float64(math.Float32frombits(uint32(words[encoding.RecordAlpha])))),
		Beta:   float64(math.Float32frombits(uint32(words[encoding.RecordBeta]))),
		A:      Matrix{w(encoding.RecordOffA), w(encoding.RecordLDA)},
		B:      Matrix{w(encoding.RecordOffB), w(encoding.RecordLDB)},
		C:      Matrix{w(encoding.RecordOffC), w(encoding.RecordLDC)},
		B2:     Matrix{w(encoding.RecordOffB2), w(encoding.RecordLDB2)},
		Bias:   w(encoding.RecordBias), RowsA: w(encoding.RecordRowsA), RowsC: w(encoding.RecordRowsC),
		Weights: w(encoding.RecordWeights), Pointers: w(encoding.RecordPointers),
		ScaleA: w(encoding.RecordScaleA), ScaleB: w(encoding.RecordScaleB)}
}

// keeps reports whether a problem passes the check of batches. Operands that it does not read may lie
// anywhere.
func (r *Ragged) keeps(t *testing.T, q Problem, e Epilogue) bool {
	if q.M == 0 || q.N == 0 {
		return true
	}
	if !q.Reads() {
		if !r.keepsBlocks(&q, e) {
			return false
		}
		q.K, q.A, q.B, q.B2, q.TransA, q.TransB = 0, Matrix{}, Matrix{}, Matrix{}, false, true
	}
	return Batch{q}.Check(t.Context(), e, r.bounds(&e)) == nil
}

// keepsBlocks reports whether the scales of blocks fit for a problem that does not read them.
func (r *Ragged) keepsBlocks(q *Problem, e Epilogue) bool {
	rows, blocks, columns := q.M, (q.K+127)/128, (q.N+127)/128
	if e.GatherRows > 0 {
		rows = e.GatherRows
	}
	if e.Gated {
		columns *= 2
	}
	return e.ScaleA != PerBlock || q.ScaleA+rows*blocks <= r.LenRows && q.ScaleB+columns*blocks <= r.LenRows
}
