package hip

import (
	"testing"

	"github.com/batchgemm/batchgemm/internal/dl/dltest"
	"github.com/batchgemm/batchgemm/internal/drivertest"
)

// The tests below need a GPU, and skip without one.

func TestConformance(t *testing.T)    { drivertest.Run(t, Driver()) }
func TestSignals(t *testing.T)        { dltest.Signals(t, Driver()) }
func TestTwoProcesses(t *testing.T)   { dltest.TwoProcesses(t, Driver()) }
func TestRandomProblems(t *testing.T) { dltest.RandomProblemsOnGPU(t, Driver()) }

func TestLargeOffsets(t *testing.T) {
	d := drivertest.Open(t, Driver())
	drivertest.LargeOffsets(t, d, d.Alloc)
}

func BenchmarkSubmit(b *testing.B)     { dltest.BenchmarkSubmit(b, Driver()) }
func BenchmarkSubmitWait(b *testing.B) { dltest.BenchmarkSubmitWait(b, Driver()) }
func BenchmarkPrepare(b *testing.B)    { dltest.BenchmarkPrepare(b, Driver()) }
func BenchmarkTransfer(b *testing.B)   { dltest.BenchmarkTransfer(b, Driver()) }
