package backend

import (
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Device is a backend's device type.
type Device interface {
	comparable
	Info() driver.Info
}

// Owned is a backend's type of buffers or programs, which know their device.
type Owned[D Device] interface {
	comparable
	On() D
}

// Apart is a program whose plan may have A, B or C by pointers, or no B. Its runs have no buffers for these.
type Apart interface{ Apart() (abc [3]bool) }

// Operands returns the program and A, B and C of a run, if the device made them. Operands with addresses are
// nil.
func Operands[P, B Owned[D], D Device](d D, r *driver.Run) (p P, operands [3]B, err error) {
	p, ok := r.Program.(P)
	if !ok || p.On() != d {
		return p, operands, invalid.Errorf("%s: the program is of another device", d.Info().Backend)
	}
	var apart [3]bool
	if a, ok := any(p).(Apart); ok {
		apart = a.Apart()
	}
	for i, b := range [...]driver.Buffer{r.A, r.B, r.C} {
		if b == nil && apart[i] {
			continue
		}
		if operands[i], ok = b.(B); !ok || operands[i].On() != d {
			return p, operands, invalid.Errorf("%s: %c is of another device", d.Info().Backend, 'A'+i)
		}
	}
	return p, operands, nil
}

// Beside returns B2, Bias and Rows of a run, as far as it has them, if the device made them.
func Beside[B Owned[D], D Device](d D, r *driver.Run) (beside [3]B, err error) {
	for i, b := range [...]driver.Buffer{r.B2, r.Bias, r.Rows} {
		if b == nil {
			continue
		}
		own, ok := b.(B)
		if !ok || own.On() != d {
			return beside, invalid.Errorf("%s: %s is of another device", d.Info().Backend,
				[...]string{"B2", "Bias", "Rows"}[i])
		}
		beside[i] = own
	}
	return beside, nil
}

// Sizes returns the sizes of a run of a ragged plan, if the device made them.
func Sizes[B Owned[D], D Device](d D, r *driver.Run) (sizes B, err error) {
	sizes, ok := r.Sizes.(B)
	if !ok || sizes.On() != d {
		return sizes, invalid.Errorf("%s: the sizes are of another device", d.Info().Backend)
	}
	return sizes, nil
}

// Pair returns the buffers of a copy, if the device made them.
func Pair[B Owned[D], D Device](d D, dst, src driver.Buffer) (to, from B, err error) {
	to, ok := dst.(B)
	if !ok || to.On() != d {
		return to, from, invalid.Errorf("%s: dst is of another device", d.Info().Backend)
	}
	if from, ok = src.(B); !ok || from.On() != d {
		return to, from, invalid.Errorf("%s: src is of another device", d.Info().Backend)
	}
	return to, from, nil
}
