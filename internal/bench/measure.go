// Package bench measures methods that compute the same batch, side by side, and writes the results as a
// table, CSV or JSON.
package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Sample is the time of one execution of a batch.
type Sample struct {
	Device time.Duration
	Host   time.Duration // of the submitting call; 0: not measured
}

// Method is one way to compute a batch, and one way to time it.
type Method struct {
	Name  string // batchgemm, cublas-loop, ...
	Timed string // source of the device time: graph, stream, timestamp, ...
	// Sample executes the batch a number of times and returns the time of one.
	Sample func(context.Context) (Sample, error)
	// Settle, if not 0, is a wait before each sample that counts. After the wait comes a sample that does
	// not count. So threads of another method end, and caches and clocks are ready.
	Settle time.Duration
}

// Spread summarises repeated times, in microseconds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spread summarises times. Without times it is zero.
func spread(times []float64) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(times))
	half := len(s) / 2
	median := s[half]
	if len(s)%2 == 0 {
		median = (s[half-1] + s[half]) / 2
	}
	return Spread{Median: median, Min: s[0], Max: s[len(s)-1]}
}

// GeoMean returns the geometric mean of positive numbers, or 0 if there are none.
func GeoMean(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range numbers {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(numbers)))
}

// Measurement is the result of Measure for one method.
type Measurement struct {
	Device Spread
	Host   Spread // zero: not measured
}

// Measure samples all methods repeat times, alternating between them, so that changes of clock rates or
// temperature affect all of them. Before that it runs them untimed, each at least once, for at least warmUp.
func Measure(ctx context.Context, methods []Method, repeat int, warmUp time.Duration) ([]Measurement, error) {
	for start, first := time.Now(), true; first || time.Since(start) < warmUp; first = false {
		for i := range methods {
			if _, err := methods[i].sample(ctx); err != nil {
				return nil, err
			}
		}
	}
	device, host := make([][]float64, len(methods)), make([][]float64, len(methods))
	for range repeat {
		for i := range methods {
			s, err := methods[i].settled(ctx)
			if err != nil {
				return nil, err
			}
			device[i] = append(device[i], micros(s.Device))
			if s.Host > 0 {
				host[i] = append(host[i], micros(s.Host))
			}
		}
	}
	found := make([]Measurement, len(methods))
	for i := range methods {
		found[i] = Measurement{spread(device[i]), spread(host[i])}
	}
	return found, nil
}

func (m *Method) sample(ctx context.Context) (Sample, error) {
	if err := ctx.Err(); err != nil {
		return Sample{}, err
	}
	s, err := m.Sample(ctx)
	if err != nil {
		return Sample{}, fmt.Errorf("%s: %w", m.Name, err)
	}
	return s, nil
}

// settled returns a sample that counts.
func (m *Method) settled(ctx context.Context) (Sample, error) {
	if m.Settle > 0 {
		time.Sleep(m.Settle)
		if s, err := m.sample(ctx); err != nil {
			return s, err
		}
	}
	return m.sample(ctx)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
