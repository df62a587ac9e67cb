// Package examples runs every example, so that they stay correct.
package examples

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/sample"
)

func TestExamples(t *testing.T) {
	for name, want := range map[string]string{
		"quickstart": "[3 7] [42 48 54]",
		"inception":  "5x5 branch, 3136x32x75: largest difference",
		"moe":        "step 4:  31 tokens",
		"frames":     "60 frames, ",
	} {
		t.Run(name, func(t *testing.T) {
			sample.Examples.Whole(t)
			out, err := exec.Command("go", "run", "./"+name).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), want)
		})
	}
}
