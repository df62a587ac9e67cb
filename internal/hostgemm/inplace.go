package hostgemm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// InPlace computes a batch of elements of any types where they lie, like GEMM, and reports whether it could.
// It can on a device in the host, if no problem reads what another one writes. have are the lengths of the
// operands.
func (h *Host) InPlace(ctx context.Context, batch planner.Batch, o planner.Options, x Operands,
	have planner.Lengths) (could bool, err error) {
	t := task{batch: batch, options: o, Operands: x, have: have}
	if _, is := h.device.(backend.InHost); !is {
		return false, nil
	}
	if err := CheckEpilogue(&o, have); err != nil {
		return true, err
	}
	if err := h.turn.take(ctx); err != nil {
		return true, err
	}
	defer h.turn.give()
	e, err := h.session.findInPlace(ctx, &t)
	if e == nil || err != nil {
		return err != nil, err
	}
	return true, h.session.execute(ctx, e, &t)
}

// findInPlace returns the task's entry. If it is not remembered, it checks the batch, and makes one that is
// computed in place. It returns nil if the batch must be packed.
func (s *session) findInPlace(ctx context.Context, t *task) (*entry, error) {
	_, is := s.hosts[0].device.(backend.InHost)
	if is {
		t.places = t.Operands.places()
	}
	e, err := s.find(ctx, t)
	if e != nil || err != nil || !is || !t.apart() {
		return e, err
	}
	whole := &part{batch: slices.Clone(t.batch)}
	for c := range written(t.batch, &t.options.Epilogue) {
		whole.sizes[operandC] += c.rows * c.cols
	}
	e, err = s.remember(ctx, t, &entry{parts: [][]*part{{whole}}, inPlace: true})
	if wrong := (*planner.ProblemError)(nil); errors.As(err, &wrong) {
		return nil, nil // its rows are too far apart
	}
	return e, err
}

// places says which operands meet the memory of C, and where they begin.
type places [operands]struct {
	meets bool
	at    uintptr // bytes from the beginning of C, modulo 2^64
}

func (x *Operands) places() (p places) {
	all := x.all()
	c, endC := bounds(all[operandC])
	for i, s := range all {
		if at, end := bounds(s); i != operandC && at < endC && c < end {
			p[i].meets, p[i].at = true, at-c
		}
	}
	return p
}

// bounds returns the addresses at which a slice begins and ends.
func bounds(s []float32) (at, end uintptr) {
	at = uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	return at, at + 4*uintptr(len(s))
}

// extent is a range of addresses.
type extent struct{ at, end uintptr }

// apart reports whether no problem reads memory that another one writes, by the ranges of matrices from
// their first element to the last.
func (t *task) apart() bool {
	if t.places == (places{}) {
		return true
	}
	if t.places[operandRows].meets {
		return false
	}
	memory, o, e := t.all(), &t.options, &t.options.Epilogue
	types := [...]element.Type{operandA: o.TypeA, operandB: o.TypeB, operandC: o.TypeC, operandB2: o.TypeB,
		operandBias: o.TypeC}
	var starts [operands]uintptr
	for i := range memory {
		starts[i], _ = bounds(memory[i])
	}
	results := make([]extent, 0, len(t.batch))
	for c := range written(t.batch, e) {
		results = append(results, c.extent(starts[operandC], o.TypeC))
	}
	results = merged(results)
	for i := range t.batch {
		if !e.Writes(&t.batch[i]) {
			continue
		}
		all := operandsOf(&t.batch[i], e)
		for _, of := range [...]int{operandA, operandB, operandB2, operandBias} {
			m := &all[of]
			if t.places[of].meets && m.rows*m.cols > 0 && meet(results, m.extent(starts[of], types[of])) {
				return false
			}
		}
	}
	return true
}

// extent returns where a matrix of a type lies in memory that begins at an address.
func (m *matrix) extent(start uintptr, of element.Type) extent {
	return extent{start + uintptr(of.Size(m.offset)), start + uintptr(of.Size(m.end()))}
}

// merged returns ranges in order, those that meet or touch as one.
func merged(ranges []extent) []extent {
	order := func(x, y extent) int { return cmp.Compare(x.at, y.at) }
	if !slices.IsSortedFunc(ranges, order) {
		slices.SortFunc(ranges, order)
	}
	n := 0
	for _, r := range ranges {
		if n > 0 && r.at <= ranges[n-1].end {
			ranges[n-1].end = max(ranges[n-1].end, r.end)
			continue
		}
		ranges[n] = r
		n++
	}
	return ranges[:n]
}

// meet reports whether a range meets one of those that merged returned.
func meet(ranges []extent, r extent) bool {
	i, _ := slices.BinarySearchFunc(ranges, r.at, func(x extent, at uintptr) int {
		if x.end <= at {
			return -1
		}
		return 1
	})
	return i < len(ranges) && ranges[i].at < r.end
}
