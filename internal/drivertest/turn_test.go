package drivertest

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Each case runs with some pair of types: of those for groups, and of those of 8 bits.
func TestTurn(t *testing.T) {
	t.Setenv(sample.Variable, "")
	for _, types := range [][]element.Type{{element.BF16, element.F16}, {element.E4M3}, {element.Int8}} {
		for n := range 3 {
			ran := 0
			for _, of := range types {
				for _, ofC := range elemtype.TypesC(of) {
					if s := (&suite{oneTile: "of a fake", of: of, ofC: ofC}); s.turn(n) {
						ran++
					}
				}
			}
			require.Positive(t, ran, "%v %d", types, n)
		}
	}
}

// ofKind is a device that only knows its kind.
type ofKind struct {
	driver.Device
	kind hardware.Kind
}

func (d ofKind) Info() driver.Info { return driver.Info{Kind: d.kind} }

// caseOf is a test that notes whether it is skipped.
type caseOf struct {
	testing.TB
	name    string
	skipped bool
}

func (c *caseOf) Name() string         { return c.name }
func (c *caseOf) Skipf(string, ...any) { c.skipped = true }

// Software runs some cases of shaders; other devices run all.
func TestSampled(t *testing.T) {
	t.Setenv(sample.Variable, "")
	ran := func(kind hardware.Kind) (n int) {
		s := &suite{device: ofKind{kind: kind}}
		for i := range 4096 {
			c := &caseOf{TB: t, name: strconv.Itoa(i)}
			if s.sampled(c, 4); !c.skipped {
				n++
			}
		}
		return n
	}
	require.Equal(t, 4096, ran(hardware.KindDiscrete))
	some := ran(hardware.KindSoftware)
	require.Positive(t, some)
	require.Less(t, some, 1600)
}
