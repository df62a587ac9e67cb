//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/ratefile"
)

// Env is how long to soak, for all backends together; unset: not at all.
const Env = "BATCHGEMM_SOAK"

const (
	// workers share the permanent device; two use plans and programs, one uses GEMM.
	workers = 3
	// rounds of a backend. After each round everything except the permanent device is closed, and the
	// process is measured.
	rounds = 40
	// report is the least time between two lines of progress.
	report = 30 * time.Second
)

func TestMain(m *testing.M) {
	os.Setenv(ratefile.DirEnv, "off") // use the package's rates
	if os.Getenv(Env) != "" && os.Getenv(arenas) == "" {
		// glibc reads these when the process starts. With an arena for each thread, and memory that it
		// keeps, the compiler in a software driver leaves more and more fragments: 70 MB in a minute, all
		// unused.
		os.Setenv(arenas, "1")
		os.Setenv("MALLOC_TRIM_THRESHOLD_", "65536")
		panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	os.Exit(m.Run())
}

const arenas = "MALLOC_ARENA_MAX"

// TestSoak gives each backend the same share of the time.
func TestSoak(t *testing.T) {
	total, err := time.ParseDuration(os.Getenv(Env))
	if err != nil {
		t.Skipf("%s is not a time such as 10m: %v", Env, err)
	}
	var found []string
	backends, err := dispatch.Devices(t.Context())
	require.NoError(t, err)
	for _, l := range backends {
		fixed := os.Getenv("BATCHGEMM_BACKEND")
		switch {
		case fixed != "" && fixed != l.Backend:
		case l.Err != nil:
			t.Logf("without %s: %v", l.Backend, l.Err)
		default:
			found = append(found, l.Backend)
		}
	}
	require.NotEmpty(t, found)
	for _, backend := range found {
		t.Run(backend, func(t *testing.T) { soak(t, backend, total/time.Duration(len(found))) })
	}
}

// stage is the soaking of one backend.
type stage struct {
	backend string
	stays   *dispatch.Device // open from the first round to the last
	batches atomic.Int64     // done
	checked atomic.Int64     // and compared with float64
	opened  atomic.Int64     // devices that were opened and closed
}

func soak(t *testing.T, backend string, share time.Duration) {
	d, err := dispatch.Open(t.Context(), dispatch.WithBackend(backend))
	require.NoError(t, err)
	s := &stage{backend: backend, stays: d}
	defer func() { require.NoError(t, d.Close()) }()
	t.Logf("%s for %v: %s (%s)", backend, share, d.Info().Name, d.Info().Driver)
	require.NoError(t, s.warm(t.Context()))
	log := history{}
	start, shown := time.Now(), time.Now()
	for round := range uint64(rounds) {
		end := start.Add(share * time.Duration(round+1) / rounds)
		if err := s.round(t.Context(), round, end); err != nil {
			require.NoError(t, err, "%s, round %d", backend, round)
		}
		log = append(log, measure(s.batches.Load()))
		if time.Since(shown) >= report || round == rounds-1 {
			shown = time.Now()
			t.Logf("%s %3.0f s: %d batches, %d checked, %d devices opened; %v", backend,
				time.Since(start).Seconds(),
				s.batches.Load(), s.checked.Load(), s.opened.Load(), log[round])
		}
	}
	text, err := log.flat()
	t.Logf("%s: %s", backend, text)
	require.NoError(t, err)
	require.Positive(t, s.checked.Load())
}

// warm runs every entry of the menu, so that the device has made its kernels.
func (s *stage) warm(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(0, 0))
	for range 2 {
		for _, entry := range menu {
			if err := s.program(ctx, s.stays, rng, entry); err != nil {
				return err
			}
		}
		if err := s.gemm(ctx, s.stays, rng); err != nil {
			return err
		}
	}
	return nil
}

// round keeps the workers busy until end, and one more on another device that it opens and closes. All of
// them start something before they look at the clock.
func (s *stage) round(ctx context.Context, seed uint64, end time.Time) error {
	work := []func(*rand.Rand) error{
		func(rng *rand.Rand) error { return s.gemm(ctx, s.stays, rng) },
		func(rng *rand.Rand) error { return s.visit(ctx, rng) },
	}
	for range workers - 1 {
		work = append(work, func(rng *rand.Rand) error {
			return errors.Join(s.program(ctx, s.stays, rng, menu[rng.IntN(len(menu))]), s.mistakes(ctx, rng))
		})
	}
	errs := make([]error, len(work))
	var group sync.WaitGroup
	for i, do := range work {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)+1))
			for ok := true; ok; ok = errs[i] == nil && time.Now().Before(end) {
				errs[i] = do(rng)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// visit opens the device again, uses it with random options and closes it, half of the time with all objects
// open.
func (s *stage) visit(ctx context.Context, rng *rand.Rand) error {
	d, err := dispatch.Open(ctx, dispatch.WithBackend(s.backend))
	if err != nil {
		return err
	}
	defer s.opened.Add(1)
	any := choice{options: randomOptions(rng, d), transA: rng.IntN(2) == 1, transB: rng.IntN(2) == 1}
	err = errors.Join(s.program(ctx, d, rng, any), s.gemm(ctx, d, rng))
	var left *job
	if rng.IntN(2) == 0 && err == nil {
		left, err = prepare(ctx, d, rng, any)
	}
	err = errors.Join(err, d.Close())
	if left != nil {
		err = errors.Join(err, left.close())
		if again := left.submit(ctx, 1); !errors.Is(again, dispatch.ErrClosed) {
			err = errors.Join(err, fmt.Errorf("a run on a closed device: %v", again))
		}
	}
	return err
}
