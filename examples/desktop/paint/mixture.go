package paint

import (
	"image/color"
	"math"
	"math/rand/v2"
)

// The picture, and the networks that paint it.
const (
	Width   = 320
	Height  = 240
	Experts = 24

	pixels  = Width * Height
	inputs  = 16 // what a network knows of a pixel's place
	hidden  = 24
	outputs = 3 // red, green, blue
)

// mixture has the weights of all networks, one network after the other, and the constant parts of the
// picture.
type mixture struct {
	places  []float32 // inputs of each pixel
	weights [layers][]float32
	biases  [layers][]float32
	phases  []float64 // of the biases of the first layer, which change with time
}

// layers of a network.
const layers = 3

var columns = [layers + 1]int{inputs, hidden, hidden, outputs}

func newMixture(seed uint64) *mixture {
	rng := rand.New(rand.NewPCG(seed, seed))
	m := &mixture{places: places(), phases: make([]float64, Experts*hidden)}
	for l := range layers {
		k, n := columns[l], columns[l+1]
		m.weights[l] = normal(rng, Experts*k*n, spread[l]/math.Sqrt(float64(k)))
		m.biases[l] = normal(rng, Experts*n, 0.3)
	}
	for i := range m.phases {
		m.phases[i] = rng.Float64() * 2 * math.Pi
	}
	for e := range Experts {
		copy(m.biases[layers-1][e*outputs:], palette[e%len(palette)][:])
	}
	return m
}

// spread is the strength of each layer; the last one varies the colour of its expert.
var spread = [layers]float64{1.8, 1.8, 0.55}

// palette has the initial colours of experts.
var palette = [...][outputs]float32{
	{2.40, 0.90, 0.30}, {0.25, 1.10, 1.80}, {2.00, 0.35, 0.70}, {1.60, 1.50, 0.45},
	{0.55, 0.45, 1.90}, {0.30, 1.40, 0.85}, {2.60, 1.70, 0.70}, {1.30, 0.40, 1.50},
}

// Colour returns that of an expert.
func Colour(expert int) color.RGBA {
	c := colours(palette[expert%len(palette)][:])
	return color.RGBA{c[0], c[1], c[2], c[3]}
}

func normal(rng *rand.Rand, n int, deviation float64) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(rng.NormFloat64() * deviation)
	}
	return s
}

// places returns waves over the picture, with a few lengths and directions. From two coordinates, networks
// of smooth functions would see no detail.
func places() []float32 {
	s := make([]float32, 0, pixels*inputs)
	for i := range pixels {
		x, y := coordinates(i)
		for w := range inputs / 2 {
			angle, length := float64(w)*2.4, 2+1.5*float64(w)
			sin, cos := math.Sincos(length * (float64(x)*math.Cos(angle) + float64(y)*math.Sin(angle)))
			s = append(s, float32(sin), float32(cos))
		}
	}
	return s
}

// coordinates of a pixel are 0 in the middle of the picture, and 1 or -1 at its upper and lower edges.
func coordinates(pixel int) (x, y float32) {
	return (2*float32(pixel%Width) - Width) / Height, 2*float32(pixel/Width)/Height - 1
}

// move sets the biases of the first layer for a time in seconds.
func (m *mixture) move(time float64) {
	for i, phase := range m.phases {
		m.biases[0][i] = float32(1.2 * math.Sin(phase+time*(0.3+0.1*float64(i%5))))
	}
}

// routing says which expert paints which pixels.
type routing struct {
	// rows has the pixels, expert by expert, and then the bits of their brightness.
	rows  []int32
	ends  []int32 // ends of each expert's pixels
	owner []uint8 // of each pixel
}

func newRouting() *routing {
	return &routing{rows: make([]int32, 2*pixels), ends: make([]int32, Experts), owner: make([]uint8, pixels)}
}

// site is the place of an expert, and its squared reach.
type site struct{ x, y, reach float32 }

// sites move, and their reach grows and shrinks, for some to nothing.
func sites(time float64) (s [Experts]site) {
	for e := range s {
		f := float64(e)
		s[e] = site{
			x:     float32(1.25 * math.Sin(f*1.7+time*(0.11+0.013*math.Mod(f, 7)))),
			y:     float32(0.95 * math.Cos(f*2.9+time*(0.09+0.017*math.Mod(f, 5)))),
			reach: float32(0.12 * math.Sin(f*0.9+time*0.4)),
		}
	}
	return s
}

// route gives each pixel to the expert with the nearest site, less its reach, like the router of a mixture
// of experts gives tokens to the experts with the highest score. The smaller the lead over the second
// expert, the darker the pixel.
func (r *routing) route(time float64) {
	const edge = 0.02 // a lead for full brightness
	home := sites(time)
	var counts, next [Experts]int32
	var brightness [pixels]float32
	for i := range pixels {
		x, y := coordinates(i)
		first, second := float32(math.MaxFloat32), float32(math.MaxFloat32)
		for e := range home {
			dx, dy := x-home[e].x, y-home[e].y
			switch d := dx*dx + dy*dy - home[e].reach; {
			case d < first:
				first, second = d, first
				r.owner[i] = uint8(e)
			case d < second:
				second = d
			}
		}
		counts[r.owner[i]]++
		brightness[i] = min(1, (second-first)/edge)
	}
	end := int32(0)
	for e, n := range counts {
		next[e] = end
		end += n
		r.ends[e] = end
	}
	for i, e := range r.owner {
		r.rows[next[e]] = int32(i)
		r.rows[pixels+next[e]] = int32(math.Float32bits(brightness[i]))
		next[e]++
	}
}

// counts returns the number of pixels of each expert.
func (r *routing) counts() (c [Experts]int) {
	start := int32(0)
	for e, end := range r.ends {
		c[e] = int(end - start)
		start = end
	}
	return c
}

// colours converts the results of the networks, any positive numbers, to bytes of red, green, blue and
// alpha.
func colours(light []float32) []byte {
	rgba := make([]byte, 0, len(light)/outputs*4)
	for i := 0; i < len(light); i += outputs {
		for _, v := range light[i : i+outputs] {
			rgba = append(rgba, byte(255*v/(1+v)))
		}
		rgba = append(rgba, 255)
	}
	return rgba
}
