package dispatch

import (
	"os"
	"testing"

	"github.com/batchgemm/batchgemm/internal/ratefile"
)

// TestMain keeps rates that were measured on this machine out of the tests.
func TestMain(m *testing.M) {
	os.Setenv(ratefile.DirEnv, "off")
	os.Exit(m.Run())
}
