package webgpu

import (
	"testing"

	"github.com/batchgemm/batchgemm/dispatch/drivertest"
)

func TestConformance(t *testing.T) { drivertest.Run(t, Driver()) }
