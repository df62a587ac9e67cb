package report

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// span is the range of some numbers. The zero value has none.
type span struct {
	low, high float64
	any       bool
}

func (s *span) add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	if !s.any {
		s.low, s.high, s.any = x, x, true
	}
	s.low, s.high = min(s.low, x), max(s.high, x)
}

// powers widens a range of positive numbers to powers of base.
func (s span) powers(base float64) (low, high float64) {
	if !s.any {
		return 1, base
	}
	exponent := func(x float64) float64 { return math.Log(x) / math.Log(base) }
	const slack = 1e-9
	low = math.Pow(base, math.Floor(exponent(s.low)+slack))
	high = math.Pow(base, math.Ceil(exponent(s.high)-slack))
	if low == high {
		high *= base
	}
	return low, high
}

// logScale makes an axis logarithmic, from low to high.
func logScale(a *plot.Axis, low, high float64, ticks plot.Ticker) {
	a.Scale = plot.LogScale{}
	a.Min, a.Max = low, high
	a.Tick.Marker = ticks
}

// powerTicks marks powers of base, at most `most` of them.
type powerTicks struct {
	base  float64
	most  int
	label func(float64) string
}

func (t powerTicks) Ticks(low, high float64) []plot.Tick {
	const slack = 1e-9
	first := int(math.Ceil(math.Log(low)/math.Log(t.base) - slack))
	last := int(math.Floor(math.Log(high)/math.Log(t.base) + slack))
	step := max(1, int(math.Ceil(float64(last-first+1)/float64(t.most))))
	var ticks []plot.Tick
	for e := first; e <= last; e++ {
		if e%step == 0 {
			x := math.Pow(t.base, float64(e))
			ticks = append(ticks, plot.Tick{Value: x, Label: t.label(x)})
		}
	}
	return ticks
}

// plain formats a number without an exponent unless it is tiny.
func plain(x float64) string {
	if x >= 1e-4 && x < 1e7 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// times formats a factor; factors below 1 become fractions.
func times(x float64) string {
	if x < 1 {
		return "1/" + plain(math.Round(1/x)) + "×"
	}
	return plain(x) + "×"
}

// evenTicks marks multiples of 1, 2 or 5 times a power of ten, at most `most` of them.
type evenTicks struct{ most int }

func (t evenTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	if !(high > low) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(t.most))))
	for _, factor := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*factor) <= float64(t.most) {
			step *= factor
			break
		}
	}
	for i := math.Ceil(low / step); i*step <= high*(1+1e-9); i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 6, 64)})
	}
	return ticks
}
