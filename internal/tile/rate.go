package tile

import "github.com/batchgemm/batchgemm/internal/invalid"

// Rate is how fast the kernels of a shape run, in terms of the planner's cost model.
type Rate struct {
	// Efficiency is the share of the peak fp32 rate on a saturated device.
	Efficiency float64 `json:"efficiency"`
	// Times in microseconds. Step is one K step, alone on a compute unit. Fixed is what a worker takes
	// besides its steps: its item, first load and store. Worker is what a worker takes of a saturated
	// compute unit besides its steps.
	Step   float64 `json:"step"`
	Fixed  float64 `json:"fixed"`
	Worker float64 `json:"worker"`
	// Stream is how many bytes of A and B a compute unit gets from device memory in a microsecond, if caches
	// have nothing: the bytes in flight over memory's latency. 0: not measured; as much as memory delivers.
	Stream float64 `json:"stream,omitempty"`
	// Along is Stream with a transposed (K-major) B. Rows of plain FMA also wait for it, in part, if caches
	// have B. 0: equal to Stream.
	Along float64 `json:"along,omitempty"`
	// Rounds is the time of LPT relative to data-parallel for uneven tiles that fill more than one round but
	// not three. 0: LPT is not faster.
	Rounds float64 `json:"rounds,omitempty"`
}

// Rates are the rates that come with the package, by kind of kernel. A rate is zero if a shape has no such
// kernels.
type Rates struct {
	WGSL   Rate
	Words  float64 // added to WGSL's Worker if C has 16 bits
	Direct float64 // speed-up of WGSL's steps if B goes to registers; 0: not known
	Native Rate    // CUDA and HIP, whose kernels have the same source: fp32, or emulated fp32
	TF32   Rate    // tensor cores: one tf32 product
	// Tensor cores: elements of 16 and of 8 bits, and the same for aligned rows (of 8 bits: aligned K-major
	// rows). Plain FMA has factors in planner.KernelFacts instead.
	Bits16, Aligned16, Bits8, Aligned8 Rate
	Int4                               Rate // B of 4 bits
	CPU                                Rate
	// Time of a tile with at most half of its rows, or columns, relative to a whole tile; 0: the same.
	HalfRows, HalfCols float64
}

// MaxEfficiency bounds the efficiency that a rate can have, with one tf32 product or not, relative to a peak
// that may be guessed. Clocks exceed those of the peak rate by a fifth at most. Tensor cores have up to 8
// times the fp32 rate (A100: 156 to 19.5 TFLOPS in tf32) for one of the three products. A guessed peak may
// be far too low.
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

// MinEfficiency is the least efficiency of a rate. Slower kernels would be useless; 0 means that none was
// measured.
const MinEfficiency = 1e-6

// MaxMicros bounds a launch, a step or a worker: 10 s. The largest step, 128 x 128 x 32, takes 1 s on the
// slowest device.
const MaxMicros = 1e7

// Check fails for a rate that no kernel of a shape can have: see MinEfficiency, MaxEfficiency and MaxMicros.
func (r Rate) Check(s *Shape, tf32, guessed bool) error {
	least := min(r.Step, r.Fixed, r.Worker, r.Stream, r.Along, r.Rounds) // NaN if one of them is
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
