package planner

// Rate is how fast the kernels of a tile shape run, as the cost model has it.
type Rate struct {
	Efficiency float64 `json:"efficiency"` // of the peak fp32 rate, when the device is saturated
	Step       float64 `json:"step"`       // microseconds of one K step, alone on a compute unit
	Fixed      float64 `json:"fixed"`      // microseconds of a worker besides its steps: item, first load, store
	Worker     float64 `json:"worker"`     // microseconds of a saturated compute unit that a worker takes besides its steps
}

// Rates are those of the tile table's rows, in its order.
type Rates struct {
	Tiles [NumTiles]Rate // in fp32, or emulating it
	TF32  [NumTiles]Rate // rows of tensor cores with one product
}

func (r *Rates) of(id TileID, c Compute) *Rate {
	if c == ComputeTF32 && tiles[id].Unit != UnitFMA {
		return &r.TF32[id]
	}
	return &r.Tiles[id]
}

// The rates below are fits of model.cost to measured times of 72 batches of 8 to
// 256 problems with sizes uniform in [16, 128..512] and K in [16, 128..1024], on
// an H200 with driver 580, data-parallel and split-K. Tiles near the best of a
// batch count most; the root mean square of their relative error is 5 to 10
// percent a row. On the CUDA kernels, choosing by the rates costs 1.3 percent
// against the best tile and schedule of each batch (geometric mean; 20 percent
// at most).
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
		{0.118, 0.256, 0.14, 0.022},
		{0.153, 0.376, 0.00, 0.039},
		{0.297, 0.430, 0.00, 0.023},
		{0.333, 0.552, 0.00, 0.083},
		{0.537, 0.659, 0.00, 0.290},
		{0.128, 0.190, 0.45, 0.014},
		{0.284, 0.414, 0.57, 0.120},
		{0.499, 0.322, 0.34, 0.133},
		{0.471, 0.329, 0.90, 0.191},
		{0.554, 0.589, 0.00, 0.149},
		{0.640, 0.594, 0.00, 0.375},
		{0.703, 0.975, 0.00, 0.343},
		{0.694, 0.533, 0.08, 0.543},
	}}
)

// measuredUnit is the peak of a compute unit of that device, in FLOP a microsecond.
const measuredUnit = 67e6 / 132

// shippedRates are those of the device's kind of kernels.
func (d *Device) shippedRates() *Rates {
	if d.Model == ModelWebGPU {
		return &wgslRates
	}
	return &nativeRates
}
