package native

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeadersAlone: a header includes what it uses, so it can be read or included without another one before
// it.
func TestHeadersAlone(t *testing.T) {
	requireTool(t, compiler)
	headers, err := filepath.Glob("*/*.cuh")
	require.NoError(t, err)
	dialects, err := filepath.Glob("*/*.h")
	require.NoError(t, err)
	languages := map[string][]string{
		"cuda": {"-x", "cuda", "--cuda-gpu-arch=sm_90a", "-nocudainc", "-nocudalib",
			"-D__CUDA_ARCH_FEAT_SM90_ALL", "-include", "internal/emulator/cuda.h"},
		"hip": {"-x", "hip", "--offload-arch=gfx942", "-nogpuinc", "-nogpulib", "-ffreestanding"},
	}
	for _, header := range append(headers, dialects...) {
		for language, flags := range languages {
			if !ofLanguage(header, language) {
				continue
			}
			t.Run(language+"/"+header, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "alone")
				require.NoError(t, os.WriteFile(file, []byte("#include \""+header+"\"\n"), 0o600))
				require.NoError(t, compile(append(slices.Clone(flags), "--cuda-device-only", "-fsyntax-only",
					"-Wno-unused", "-Wno-cuda-compat", "-I.", file)...))
			})
		}
	}
}

// ofLanguage reports whether a header is for kernels of "cuda" or "hip": shared headers, and those of the
// language.
func ofLanguage(header, language string) bool {
	amd := strings.HasPrefix(header, "amd/") || strings.Contains(header, "_hip.")
	nvidia := strings.HasPrefix(header, "ptx/") || strings.Contains(header, "_cuda.") ||
		slices.ContainsFunc([]string{"/f64.", "/f64_boxes.", "/int4.", "/tensor", "/wgmma"},
			func(s string) bool { return strings.Contains(header, s) })
	return language == "cuda" && !amd || language == "hip" && !nvidia
}
