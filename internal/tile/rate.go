package tile

import "github.com/batchgemm/batchgemm/internal/invalid"

// Rate is how fast the kernels of a shape run, as the planner's cost model has it.
type Rate struct {
	// Efficiency is the share of the peak fp32 rate, when the device is saturated.
	Efficiency float64 `json:"efficiency"`
	// Microseconds: of one K step, alone on a compute unit; of a worker besides its steps, for its
	// item, first load and store; and those of a saturated compute unit that a worker takes besides
	// its steps.
	Step   float64 `json:"step"`
	Fixed  float64 `json:"fixed"`
	Worker float64 `json:"worker"`
	// Stream is the bytes of A and B that come to a compute unit from device memory in a microsecond,
	// where caches have nothing: what is under way over memory's latency. 0: not measured, as much as
	// memory gives.
	Stream float64 `json:"stream,omitempty"`
	// Along is Stream where B is transposed (K-major). Rows of plain FMA wait for it in part where
	// caches have B, too. 0: the same.
	Along float64 `json:"along,omitempty"`
	// Rounds is the part of data-parallel's time that LPT takes of uneven tiles which begin a second
	// round on the device, and no third. 0: not less.
	Rounds float64 `json:"rounds,omitempty"`
}

// Rates are those that come with the package, by kind of kernel. A rate is zero where a shape has no such
// kernels.
type Rates struct {
	WGSL   Rate
	Words  float64 // WGSL's Worker is longer by this where C has 16 bits
	Direct float64 // where B goes to registers, WGSL's steps are so many times as fast; 0: not known
	Native Rate    // CUDA and HIP, whose kernels come from the same text: fp32, or emulating it
	TF32   Rate    // tensor cores: one tf32 product
	// Tensor cores: elements of 16 and of 8 bits, and the same where rows begin with 16 bytes (of 8
	// bits, K-major rows). Plain FMA has factors in planner.KernelFacts instead.
	Bits16, Aligned16, Bits8, Aligned8 Rate
	Int4                               Rate // B of 4 bits
	CPU                                Rate
	// What a tile takes of which at most half the rows, or columns, exist, relative to a whole one;
	// 0: as much.
	HalfRows, HalfCols float64
}

// MaxEfficiency bounds what can be true of a rate's efficiency, with one tf32 product or not, relative to a
// peak that may be guessed. Clocks rise above those that peak rates are given for, by a fifth at most.
// Tensor cores have up to 8 times the fp32 rate (A100: 156 of 19.5 TFLOPS in tf32), for one product of the
// three. A peak that is a guess may be far too low.
func (s *Shape) MaxEfficiency(tf32, guessed bool) float64 {
	const boost, tensor, products, guess = 1.2, 8, 3, 100
	switch {
	case guessed:
		return boost * guess
	case !s.Unit.Tensor():
		return boost
	case tf32:
		return boost * tensor
	}
	return boost * tensor / products
}

// MinEfficiency is the least efficiency of a rate: slower kernels would be of no use, and 0 says that
// none was measured.
const MinEfficiency = 1e-6

// MaxMicros is the most of a launch, a step or a worker, 10 s: the largest step, 128 x 128 x 32, takes 1 s on
// the slowest device.
const MaxMicros = 1e7

// Check fails for a rate that no kernel of a shape can have: see MinEfficiency, MaxEfficiency and MaxMicros.
func (r Rate) Check(s *Shape, tf32, guessed bool) error {
	least := min(r.Step, r.Fixed, r.Worker, r.Stream, r.Along, r.Rounds) // NaN if one is
	most := max(r.Step, r.Fixed, r.Worker)
	efficient := MinEfficiency <= r.Efficiency && r.Efficiency <= s.MaxEfficiency(tf32, guessed)
	if efficient && 0 <= least && most <= MaxMicros && r.Rounds <= 1 {
		return nil
	}
	return invalid.Errorf("tile %s cannot have the rate %+v", s.Name, r)
}

//go:generate go run ../ratefile/ship rates.go

// The table has geometry, rates.go the rates that a fit wrote.
func init() {
	for i := range table {
		for j := range fitted {
			if fitted[j].Tile == table[i].Name {
				table[i].Rates = fitted[j].Rates
			}
		}
	}
}
