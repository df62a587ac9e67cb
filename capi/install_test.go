//go:build cgo && linux && (amd64 || arm64)

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example is built with an installed library, with the flags of pkg-config and CMake.
func TestInstalled(t *testing.T) {
	built, root := library(t), t.TempDir()
	const libdir = "/opt/lib/here" // not beside include
	run(t, []string{"DESTDIR=" + root, "PREFIX=/opt", "LIBDIR=" + libdir}, "../scripts/install.sh", built)
	runs := func(t *testing.T, program string) {
		settings := []string{"BATCHGEMM_BACKEND=cpu", "LD_LIBRARY_PATH=" + filepath.Join(root, libdir)}
		require.Equal(t, strings.Repeat("4 5 10 11, 10 20 30\n", 2), run(t, settings, program))
	}
	for _, name := range []string{"LICENSE", "NOTICES"} {
		want, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(root, "opt/share/doc/batchgemm", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	version := quoted(t, "batchgemm.h", `define BG_VERSION "(.+)"`)

	t.Run("pkg-config", func(t *testing.T) {
		needs(t, "pkg-config")
		settings := []string{"PKG_CONFIG_LIBDIR=" + filepath.Join(root, libdir, "pkgconfig"),
			"PKG_CONFIG_SYSROOT_DIR=" + root}
		require.Equal(t, version+"\n", run(t, settings, "pkg-config", "--modversion", "batchgemm"))
		flags := strings.Fields(run(t, settings, "pkg-config", "--cflags", "--libs", "batchgemm"))
		program := filepath.Join(t.TempDir(), "c-gemm")
		run(t, nil, "gcc", append([]string{"-std=c99", "-o", program, "../examples/c/gemm.c"}, flags...)...)
		runs(t, program)
	})
	t.Run("CMake", func(t *testing.T) {
		needs(t, "cmake")
		dir := t.TempDir()
		found := "-Dbatchgemm_DIR=" + filepath.Join(root, libdir, "cmake", "batchgemm")
		run(t, nil, "cmake", "-S", "../examples/c", "-B", dir, found)
		run(t, nil, "cmake", "--build", dir)
		runs(t, filepath.Join(dir, "c-gemm"))
		newer := exec.Command("cmake", "-S", "testdata/newer", "-B", t.TempDir(), found)
		out, err := newer.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "version: "+version)
	})
}

// needs skips a test without a tool, unless the list BATCHGEMM_REQUIRE has "clang", with which
// scripts/setup.sh installs it.
func needs(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		if slices.Contains(strings.Split(os.Getenv("BATCHGEMM_REQUIRE"), ","), "clang") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
