package tile

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
