package planner

// Rate is how fast the kernels of a tile shape run, as the cost model has it.
type Rate struct {
	Efficiency float64 `json:"efficiency"` // of the peak fp32 rate, when the device is saturated
	Step       float64 `json:"step"`       // microseconds of one K step, alone on a compute unit
	Fixed      float64 `json:"fixed"`      // microseconds of a worker besides its steps: item, first load, store
	Worker     float64 `json:"worker"`     // microseconds of a saturated compute unit that a worker takes besides its steps
}

// Rates are those of the tile table's rows, in its order. A row that is zero was
// not measured.
type Rates struct {
	Tiles [NumTiles]Rate // in fp32, or emulating it
	TF32  [NumTiles]Rate // rows of tensor cores with one product
}

// Of is the rate of a tile in a compute mode that allows it.
func (r *Rates) Of(id TileID, c Compute) *Rate {
	if c == ComputeTF32 && tiles[id].Unit != UnitFMA {
		return &r.TF32[id]
	}
	return &r.Tiles[id]
}

// Rate is what planning takes for a tile in a compute mode: the rate measured on
// the device itself, else the one that came with the package, scaled by the peak
// of the compute units. Latencies stay, because they differ less between GPUs
// than rates do, unless the unit is too slow for them.
func (d *Device) Rate(id TileID, c Compute) Rate {
	if d.Rates != nil {
		if r := d.Rates.Of(id, c); *r != (Rate{}) {
			return *r
		}
	}
	r, slower := *d.shippedRates().Of(id, c), measuredUnit/d.unit()
	r.Worker *= slower
	r.Fixed *= max(1, slower)
	return r
}

// Measured reports whether predicted times rest on rates that were measured: on the
// device itself, or, those that came with the package, on compute units like its own.
// Else they are guesses, though plans made by them are not bad.
func (d *Device) Measured() bool { return d.Rates != nil || d.unit() == measuredUnit }

// unit is the peak of a compute unit, in FLOP a microsecond.
func (d *Device) unit() float64 {
	return max(d.TFLOPS, 1e-6) * 1e6 / float64(max(d.ComputeUnits, 1))
}

// MaxEfficiency bounds what can be true of Rate.Efficiency. Clocks rise above those
// that peak rates are given for, by a fifth at most. Tensor cores have up to 8 times
// the fp32 rate (A100: 156 of 19.5 TFLOPS in tf32), for one product of the three.
// WebGPU tells no peak: Device.TFLOPS may be a guess that is far too low.
func (d *Device) MaxEfficiency(id TileID, c Compute) float64 {
	const boost, tensor, products, guess = 1.2, 8, 3, 100
	switch {
	case d.Model == ModelWebGPU:
		return boost * guess
	case tiles[id].Unit == UnitFMA:
		return boost
	case c == ComputeTF32:
		return boost * tensor
	}
	return boost * tensor / products
}

// The rates below are fits of the model to measured times of 72 batches of 8 to
// 256 problems with sizes uniform in [16, 128..512] and K in [16, 128..1024], on
// an H200 with driver 580: data-parallel, LPT for warpgroup kernels, and split-K; TF32
// to 20 of the batches. Tiles near the best of a batch count most; the root mean square
// of their relative error is 5 to 11 percent a row. On the CUDA kernels, what the planner
// chooses by them takes 0.8 percent longer than the best forced tile and schedule of the
// same run (mean; 10 percent at most), in TF32 1.3 percent.
var (
	// WGSL kernels through Vulkan, GPU timestamps.
	wgslRates = Rates{Tiles: [NumTiles]Rate{
		{0.125, 0.314, 0.70, 0.022},
		{0.158, 0.220, 1.03, 0.023},
		{0.306, 0.318, 1.03, 0.122},
		{0.340, 0.425, 1.11, 0.496},
		{0.563, 0.504, 1.74, 1.111},
		{0.171, 0.170, 0.93, 0.036},
		{0.343, 0.284, 0.89, 0.215},
		{0.581, 0.285, 1.43, 0.328},
		{0.588, 0.340, 1.29, 0.385},
		{0.613, 0.482, 1.63, 0.388},
		{0.710, 0.508, 1.73, 0.791},
		{0.758, 0.780, 2.19, 0.780},
		{0.690, 0.478, 1.20, 1.400},
	}}
	// CUDA kernels, nodes of a CUDA graph. HIP kernels come from the same text.
	nativeRates = Rates{Tiles: [NumTiles]Rate{
		{0.118, 0.262, 0.13, 0.025},
		{0.153, 0.387, 0.00, 0.046},
		{0.292, 0.442, 0.00, 0.031},
		{0.337, 0.546, 0.00, 0.129},
		{0.541, 0.665, 0.00, 0.327},
		{0.128, 0.200, 0.37, 0.016},
		{0.283, 0.422, 0.62, 0.110},
		{0.495, 0.322, 0.43, 0.136},
		{0.471, 0.327, 0.93, 0.192},
		{0.560, 0.607, 0.00, 0.163},
		{0.643, 0.603, 0.00, 0.401},
		{0.700, 0.946, 0.00, 0.386},
		{0.672, 0.511, 0.22, 0.540},
		{0.566, 0.077, 1.04, 0.547},
		{1.021, 1.056, 0.72, 0.577},
		{1.319, 0.602, 0.38, 1.310},
		{1.165, 0.160, 0.49, 1.611},
		{1.629, 0.218, 0.40, 2.120},
		{2.080, 0.484, 0.33, 3.586},
	}, TF32: [NumTiles]Rate{
		NumFMATiles: {0.718, 0.047, 1.17, 0.570},
		{1.506, 0.570, 1.11, 0.628},
		{1.616, 0.405, 0.55, 1.071},
		{1.616, 0.320, 0.01, 1.554},
		{2.163, 0.019, 0.75, 1.877},
		{2.709, 0.521, 0.09, 2.886},
	}}
)

// measuredUnit is unit of that device. Those of an H100 (SXM) are the same.
const measuredUnit = 67e6 / 132

// shippedRates are those of the device's kind of kernels.
func (d *Device) shippedRates() *Rates {
	if d.Model == ModelWebGPU {
		return &wgslRates
	}
	return &nativeRates
}
