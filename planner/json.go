package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// planJSON holds the inputs of a plan. Explain has the result.
type planJSON struct {
	Device  *Device       `json:"device"`
	Options Options       `json:"options"`
	Batch   []problemJSON `json:"batch"`
}

type problemJSON struct {
	M      int    `json:"m"`
	N      int    `json:"n"`
	K      int    `json:"k"`
	TransA bool   `json:"trans_a,omitempty"`
	TransB bool   `json:"trans_b,omitempty"`
	Alpha  scalar `json:"alpha"`
	Beta   scalar `json:"beta"`
	A      [2]int `json:"a"` // offset and leading dimension, in elements
	B      [2]int `json:"b"`
	C      [2]int `json:"c"`

	// For epilogues.
	B2      [2]int `json:"b2,omitzero"`
	Bias    int    `json:"bias,omitempty"`
	RowsA   int    `json:"rows_a,omitempty"`
	RowsC   int    `json:"rows_c,omitempty"`
	Weights int    `json:"weights,omitempty"`

	Pointers int `json:"pointers,omitempty"`
	ScaleA   int `json:"scale_a,omitempty"`
	ScaleB   int `json:"scale_b,omitempty"`
}

// scalar is a number that JSON may lack: NaN and the infinities are written by name.
type scalar float64

func (s scalar) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(s), 'g', -1, 64)
	if math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) {
		text = strconv.Quote(text)
	}
	return []byte(text), nil
}

func (s *scalar) UnmarshalJSON(data []byte) error {
	text := string(data)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return invalid.Errorf("%s is no number", data)
	}
	*s = scalar(value)
	return nil
}

// MarshalJSON writes the inputs of the plan: device, options and batch. It fails for a plan of a custom
// schedule, which is a function, and for a plan whose sizes are on the device.
func (p *Plan) MarshalJSON() ([]byte, error) {
	if p.Ragged != nil || p.Layer != nil {
		return nil, invalid.Errorf("a plan whose sizes are on the device cannot be written")
	}
	if p.Options.Custom != nil {
		return nil, invalid.Errorf("a plan of the custom schedule %s cannot be written",
			p.Options.Custom.Name)
	}
	to := planJSON{Device: p.Device, Options: p.Options, Batch: make([]problemJSON, len(p.Batch))}
	for i := range p.Batch {
		q := &p.Batch[i]
		to.Batch[i] = problemJSON{q.M, q.N, q.K, q.TransA, q.TransB, scalar(q.Alpha.Value()), scalar(q.Beta),
			[2]int{q.A.Offset, q.A.LD}, [2]int{q.B.Offset, q.B.LD}, [2]int{q.C.Offset, q.C.LD},
			[2]int{q.B2.Offset, q.B2.LD}, q.Bias, q.RowsA, q.RowsC, q.Weights, q.Pointers, q.ScaleA, q.ScaleB}
	}
	return json.Marshal(to)
}

// UnmarshalJSON makes the plan again. The release that wrote it makes the same plan, because plans depend
// only on what MarshalJSON writes. Inputs that do not make a plan are an error.
func (p *Plan) UnmarshalJSON(data []byte) error {
	var from planJSON
	if err := json.Unmarshal(data, &from); err != nil {
		return err
	}
	if from.Device == nil {
		if len(from.Batch) > 0 {
			return invalid.Errorf("a plan of %d problems without a device", len(from.Batch))
		}
		*p = Plan{}
		return nil
	}
	batch := make(Batch, len(from.Batch))
	for i, q := range from.Batch {
		batch[i] = Problem{M: q.M, N: q.N, K: q.K, TransA: q.TransA, TransB: q.TransB,
			Alpha: Scale(float64(q.Alpha)), Beta: float64(q.Beta),
			A: Matrix{q.A[0], q.A[1]}, B: Matrix{q.B[0], q.B[1]}, C: Matrix{q.C[0], q.C[1]},
			B2: Matrix{q.B2[0], q.B2[1]}, Bias: q.Bias, RowsA: q.RowsA, RowsC: q.RowsC, Weights: q.Weights,
			Pointers: q.Pointers,
			ScaleA:   q.ScaleA, ScaleB: q.ScaleB}
	}
	made, err := New(from.Device).Plan(context.Background(), batch, from.Options)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	*p = *made
	return nil
}
