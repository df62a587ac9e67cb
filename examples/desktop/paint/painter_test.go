package paint

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// machine is a driver of devices "good", "other" and "broken". All are the CPU, but the last cannot be
// opened.
type machine struct{ driver.Driver }

func newMachine() machine {
	all := dispatch.Backends()
	return machine{all[len(all)-1]}
}

func (m machine) Devices(ctx context.Context) ([]driver.Info, error) {
	infos, err := m.Driver.Devices(ctx)
	if err != nil {
		return nil, err
	}
	var all []driver.Info
	for i, name := range []string{"good", "other", "broken"} {
		info := infos[0]
		info.Index, info.ID, info.Name = i, name, name
		all = append(all, info)
	}
	return all, nil
}

func (m machine) Open(ctx context.Context, index int) (driver.Device, error) {
	all, err := m.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if all[index].ID == "broken" {
		return nil, fmt.Errorf("%w: the fan is stuck", dispatch.ErrUnavailable)
	}
	inner, err := m.Driver.Open(ctx, 0)
	return renamed{inner, all[index]}, err
}

type renamed struct {
	driver.Device
	info driver.Info
}

func (r renamed) Info() driver.Info { return r.info }

// start starts a painter, and keeps asking it for pictures.
func start(t *testing.T, id string, d driver.Driver) *Painter {
	p := Start(id, dispatch.WithDriver(d))
	t.Cleanup(p.Close)
	return p
}

// await returns the first state that satisfies wanted.
func await(t *testing.T, p *Painter, wanted func(s State) bool) (s State) {
	t.Helper()
	require.Eventually(t, func() bool {
		p.Want(time.Since(began).Seconds())
		s = p.State()
		return wanted(s)
	}, time.Minute, time.Millisecond)
	return s
}

var began = time.Now()

func TestPainter(t *testing.T) {
	t.Parallel()
	p := start(t, "", newMachine())
	s := await(t, p, func(s State) bool { return s.Pictures > 2 })
	require.Equal(t, "good", s.Device.ID)
	require.Len(t, s.Devices, 3)
	require.Equal(t, s.All, s.Ready)
	require.Empty(t, s.Trouble)
	require.Len(t, s.Picture.Pixels, 4*Width*Height)
	all := 0
	for _, n := range s.Picture.Rows {
		all += n
	}
	require.Equal(t, Width*Height, all)
	later := await(t, p, func(l State) bool { return l.Pictures > s.Pictures })
	require.NotEqual(t, s.Picture.Pixels, later.Picture.Pixels, "nothing moves")
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct{ name, first, then, open, trouble string }{
		{name: "the one before", first: "other", open: "other"},
		{name: "one that is gone", first: "sold", open: "good"},
		{name: "another", then: "other", open: "other"},
		{name: "the same", then: "good", open: "good"},
		{name: "one that does not open", then: "broken", open: "good", trouble: "the fan is stuck"},
		{name: "at once one that does not open", first: "broken", open: "good", trouble: "the fan is stuck"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, tc.first, newMachine())
			before := 0
			if tc.then != "" {
				before = await(t, p, func(s State) bool { return s.Pictures > 0 }).Pictures
				p.Choose(tc.then)
			}
			s := await(t, p, func(s State) bool {
				return s.Device.ID == tc.open && s.Pictures > before+2 &&
					(tc.trouble == "") == (s.Trouble == "")
			})
			require.Contains(t, s.Trouble, tc.trouble)
			require.Zero(t, s.Losses)
		})
	}
}

// A device that is lost repeatedly is opened repeatedly, and pictures continue.
func TestLost(t *testing.T) {
	t.Parallel()
	p := start(t, "other", Unplugged{newMachine(), 3})
	s := await(t, p, func(s State) bool { return s.Losses >= 2 && s.Pictures > 6 })
	require.Equal(t, "other: device lost: unplugged", s.Trouble)
	require.Equal(t, "other", s.Device.ID)
	require.Greater(t, s.Opened, 2)
}

// Close and Choose end all work in progress.
func TestClose(t *testing.T) {
	p := Start("", dispatch.WithDriver(newMachine()))
	p.Choose("other")
	p.Close()
	p.Want(1)
	p.Choose("good")
}

// BenchmarkFirstPicture is the time from the start to the first picture, on the device that BATCHGEMM_BACKEND
// names. With an empty folder as MESA_SHADER_CACHE_DIR lavapipe compiles as on a first start.
func BenchmarkFirstPicture(b *testing.B) {
	for b.Loop() {
		p := Start("")
		for s := p.State(); s.Pictures == 0; s = p.State() {
			require.Empty(b, s.Trouble)
			p.Want(0)
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		p.Close()
		b.StartTimer()
	}
}
