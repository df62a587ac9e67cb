//go:build unix

package arch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVulncheck: the script fails on findings, and never reports success for a check that did not take
// place.
func TestVulncheck(t *testing.T) {
	const notice = "govulncheck: NOTHING WAS CHECKED\n"
	for _, tc := range []struct {
		name, tool string // what govulncheck does; "": it cannot be built
		code       int
		checked    bool
	}{
		{"no tool", "", 0, false},
		{"no database",
			`echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev": no route to host'; ` +
				`exit 1`, 0, false},
		{"too slow", "exit 124", 0, false}, // as timeout has it
		{"nothing found", "exit 0", 0, true},
		{"found", "echo 'Vulnerability #1: GO-2026-4815'; exit 3", 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			install := "echo 'no such host' >&2; exit 1"
			if tc.tool != "" {
				install = "cat >\"$GOBIN/govulncheck\" <<'END'\n#!/bin/sh\n" + tc.tool +
					"\nEND\nchmod +x \"$GOBIN/govulncheck\""
			}
			fake := filepath.Join(t.TempDir(), "go")
			require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\n"+install+"\n"), 0o700))
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(filepath.Join("..", "..", "scripts", "vulncheck.sh"))
			cmd.Env = append(os.Environ(), "GO="+fake)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			require.NotNil(t, cmd.ProcessState, err)
			require.Equal(t, tc.code, cmd.ProcessState.ExitCode())
			require.Equal(t, !tc.checked, bytes.HasSuffix(stderr.Bytes(), []byte(notice)), stderr.String())
			require.Equal(t, tc.checked, stdout.Len() > 0, stdout.String())
		})
	}
}
