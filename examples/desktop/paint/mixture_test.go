package paint

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
)

func TestRoute(t *testing.T) {
	r := newRouting()
	var before [Experts]int
	for _, at := range []float64{0, 0.5, 60, 3600} {
		r.route(at)
		require.True(t, slices.IsSorted(r.ends))
		require.EqualValues(t, pixels, r.ends[Experts-1])
		all := slices.Sorted(slices.Values(r.rows[:pixels]))
		for i, pixel := range all {
			require.EqualValues(t, i, pixel, "each pixel is painted once")
		}
		start := int32(0)
		for e, end := range r.ends {
			require.True(t, slices.IsSorted(r.rows[start:end]))
			for i := start; i < end; i += 7 {
				requireNearest(t, at, e, r.rows[i], math.Float32frombits(uint32(r.rows[pixels+i])))
			}
			start = end
		}
		require.NotEqual(t, before, r.counts(), "batches of all times are alike")
		before = r.counts()
	}
}

// requireNearest checks that no site is nearer to a pixel than that of its expert.
func requireNearest(t *testing.T, at float64, expert int, pixel int32, brightness float32) {
	home := sites(at)
	x, y := coordinates(int(pixel))
	distance := func(s site) float32 { return (x-s.x)*(x-s.x) + (y-s.y)*(y-s.y) - s.reach }
	for _, s := range home {
		if distance(s) < distance(home[expert])-1e-6 {
			require.Fail(t, "another site is nearer", "pixel %d of expert %d", pixel, expert)
		}
	}
	if !(brightness >= 0 && brightness <= 1) {
		require.Fail(t, "wrong brightness", "%v", brightness)
	}
}

// The three programs paint what the networks compute, pixel by pixel.
func TestScene(t *testing.T) {
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer device.Close()
	var stages []int
	s, err := newScene(t.Context(), device, func(ready, all int) {
		require.Equal(t, layers, all)
		stages = append(stages, ready)
	})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 3}, stages)
	r, light := newRouting(), make([]float32, pixels*outputs)
	for _, at := range []float64{0, 7} {
		reading, err := s.start(t.Context(), at, r, light)
		require.NoError(t, err)
		<-reading.Done()
		require.NoError(t, reading.Err())
		for i := 0; i < pixels; i += 997 {
			pixel := int(r.rows[i])
			want := s.mixture.paint(int(r.owner[pixel]), pixel)
			for c, v := range want {
				v *= float64(math.Float32frombits(uint32(r.rows[pixels+i])))
				require.InDelta(t, v, light[pixel*outputs+c], 1e-4, "pixel %d", pixel)
			}
		}
	}
	for l := range layers {
		require.NoError(t, s.programs[l].Status(t.Context()))
	}
}

// paint computes one pixel in float64.
func (m *mixture) paint(expert, pixel int) []float64 {
	var x []float64
	for _, v := range m.places[pixel*inputs:][:inputs] {
		x = append(x, float64(v))
	}
	for l := range layers {
		k, n := columns[l], columns[l+1]
		y := make([]float64, n)
		for j := range y {
			y[j] = float64(m.biases[l][expert*n+j])
			for i, v := range x {
				y[j] += v * float64(m.weights[l][expert*k*n+i*n+j])
			}
			if l == layers-1 {
				y[j] = max(0, y[j])
			} else {
				y[j] /= 1 + math.Exp(-y[j])
			}
		}
		x = y
	}
	return x
}

func TestColours(t *testing.T) {
	require.Equal(t, []byte{0, 127, 255, 255, 191, 0, 0, 255}, colours([]float32{0, 1, 1e9, 3, 0, 0}))
}

func TestTimes(t *testing.T) {
	var times Times
	median, worst := times.Summary()
	require.Zero(t, median+worst)
	for i := range Kept + 10 {
		times.Add(time.Duration(i) * time.Millisecond)
	}
	require.Len(t, times.List(), Kept)
	require.Equal(t, 10*time.Millisecond, times.List()[0])
	require.Equal(t, "110.0 ms median, 209.0 at most", times.String())
}
