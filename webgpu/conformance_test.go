package webgpu

import (
	"testing"

	"github.com/batchgemm/batchgemm/internal/drivertest"
)

func TestConformance(t *testing.T) { drivertest.Run(t, Driver()) }
