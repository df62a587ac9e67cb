package dispatch

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/planner"
)

// miscompiler is a driver whose kernels of one tile shape add 1 to an element of C.
type miscompiler struct {
	*fakedriver.Driver
	tile string
	runs int // of programs
}

type miscompiled struct {
	driver.Device
	by *miscompiler
}

type misprogram struct {
	driver.Program
	wrong bool
}

func (m *miscompiler) Open(ctx context.Context, index int) (driver.Device, error) {
	d, err := m.Driver.Open(ctx, index)
	return &miscompiled{d, m}, err
}

func (d *miscompiled) Text(k encoding.Kernel) (string, error) { return k.String(), nil }

func (d *miscompiled) Prepare(ctx context.Context, p *planner.Plan) (driver.Program, error) {
	made, err := d.Device.Prepare(ctx, p)
	wrong := slices.ContainsFunc(p.Launches, func(l encoding.Launch) bool {
		return l.Ragged == 0 && l.Tile.Name == d.by.tile
	})
	return &misprogram{made, wrong}, err
}

func (d *miscompiled) Submit(ctx context.Context, runs []driver.Run) error {
	for _, r := range runs {
		d.by.runs++
		p := r.Program.(*misprogram)
		r.Program = p.Program
		if err := d.Device.Submit(ctx, []driver.Run{r}); err != nil {
			return err
		}
		if p.wrong {
			var c [1]float32
			if err := r.C.Read(ctx, 3, c[:]); err != nil {
				return err
			}
			c[0]++
			if err := r.C.Write(ctx, 3, c[:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestWarmChecks: Warm runs the kernels that a driver compiles, once for each driver, and plans avoid those
// that are wrong.
func TestWarmChecks(t *testing.T) {
	t.Setenv(backendEnv, "")
	t.Setenv(ratefile.DirEnv, t.TempDir())
	var log bytes.Buffer
	SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
	defer SetLogger(nil)
	m := &miscompiler{Driver: fakedriver.New(t), tile: "simd-64x64"}
	open := func() *Device {
		d, err := Open(t.Context(), WithDriver(m))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	refuses := func(d *Device) bool {
		_, err := d.Plan(t.Context(), small(t), planner.Options{Tile: m.tile})
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "computed wrong results")
		}
		return err != nil
	}
	d := open()
	require.False(t, refuses(d))
	require.NoError(t, d.Warm(t.Context(), WarmOptions{}))
	require.Positive(t, m.runs)
	require.True(t, refuses(d))
	groups, err := d.planner.Kernels(planner.Options{}, planner.Transposition{}, true)
	require.NoError(t, err)
	require.Equal(t, len(groups)-1, d.Warmed().Len())
	require.Contains(t, log.String(), "kernels compute wrong results")
	require.Contains(t, log.String(), m.tile)
	require.Contains(t, log.String(), "C[")
	_, err = d.Plan(t.Context(), small(t), planner.Options{Kernels: d.Warmed()})
	require.NoError(t, err)

	m.runs = 0
	again := open()
	require.True(t, refuses(again), "the file is read when a device is opened")
	require.NoError(t, again.Warm(t.Context(), WarmOptions{}))
	require.Zero(t, m.runs, "what was checked is known")

	t.Setenv(ratefile.DirEnv, "off")
	require.False(t, refuses(open()))
	end, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, open().Warm(end, WarmOptions{}), context.Canceled)
}
