// Package arch holds the repository to its layering.
package arch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/batchgemm/batchgemm/"

// allowed lists what the packages of a folder may import from this module. The
// longest matching folder counts. Tests may import more.
var allowed = map[string][]string{
	"planner":              {"internal/invalid"}, // its folders tile, element and encoding count as it
	"planner/devices":      {"planner", "native", "wgsl", "internal/invalid"},
	"internal/invalid":     {},
	"internal/sample":      {},
	"internal/version":     {},
	"internal/cublas":      {"planner", "dispatch/driver"},
	"internal/openblas":    {"planner", "dispatch/driver"},
	"internal/codeobject":  {}, // for tests
	"wgsl":                 {"planner"},
	"native":               {"planner"},
	"native/internal":      {"planner", "native", "native/products", "internal/codeobject"},
	"native/products":      {},
	"dispatch/driver":      {"planner", "internal/invalid"},
	"dispatch/drivertest":  {"planner", "dispatch/driver", "internal/reference", "internal/sample"},
	"internal/cgroup":      {},
	"internal/hostmem":     {"dispatch/driver", "internal/cgroup"},
	"internal/hostgemm":    {"planner", "dispatch/driver", "internal/hostmem", "internal/invalid"},
	"internal/reference":   {"planner", "internal/hostmem"},
	"internal/cpu":         {"planner", "dispatch/driver", "internal/backend", "internal/cgroup", "internal/hostmem", "internal/invalid"},
	"internal/fakedriver":  {"planner", "dispatch/driver", "internal/cpu"}, // for tests
	"internal/workload":    {"planner", "internal/hostmem", "internal/npz", "internal/atomicfile"},
	"internal/npz":         {"planner", "internal/atomicfile", "internal/invalid"},
	"internal/atomicfile":  {},
	"internal/timeline":    {"planner"},
	"internal/bench":       {"planner"},
	"internal/report":      {"planner", "internal/bench", "internal/timeline", "internal/atomicfile"},
	"internal/tune":        {"planner"},
	"internal/results":     {"planner", "internal/bench", "internal/report"},
	"internal/ratefile":    {"planner", "dispatch/driver", "internal/atomicfile"},
	"internal/backend":     {"dispatch/driver", "internal/invalid"},
	"internal/arch":        {},
	"internal/browser":     {}, // for tests
	"internal/browserexec": {"internal/browser"},
	"internal/soak":        {}, // a test alone
	"webgpu":               {"planner", "planner/devices", "wgsl", "dispatch/driver", "internal/backend", "internal/invalid"},
	"internal/dl":          {"planner", "dispatch/driver", "internal/backend", "internal/invalid"},
	"internal/dl/dltest":   {"planner", "internal/dl", "internal/backend", "dispatch/driver", "dispatch/drivertest", "internal/reference"},
	"native/cuda":          {"planner", "planner/devices", "native", "native/products", "internal/dl", "dispatch/driver"},
	"internal/clocks":      {"planner", "native", "native/products", "internal/dl", "native/cuda", "dispatch/driver", "internal/timeline"},
	"native/hip":           {"planner", "planner/devices", "native", "native/products", "internal/dl", "dispatch/driver"},
	"dispatch":             {"planner", "dispatch/driver", "internal/invalid", "internal/cpu", "internal/hostgemm", "internal/hostmem", "internal/ratefile", "webgpu", "native/cuda", "native/hip"},
	"cmd":                  {"planner", "planner/devices", "dispatch", "dispatch/driver", "internal/hostmem", "internal/reference", "internal/workload", "internal/npz", "internal/atomicfile", "internal/timeline", "internal/bench", "internal/report", "internal/tune", "internal/ratefile", "internal/cublas", "internal/openblas", "internal/clocks", "internal/version"},
	"capi":                 {"planner", "dispatch"},
	"examples":             {"planner", "planner/devices", "dispatch", "dispatch/driver"},
	"examples/browser":     {"planner", "dispatch", "internal/bench", "internal/reference", "internal/timeline", "internal/workload"},
}

// external lists the only importers of modules that must stay in one place.
var external = map[string]string{
	"github.com/rajveermalviya/go-webgpu": "webgpu",
	"github.com/spf13/cobra":              "cmd",
	"gonum.org/v1/plot":                   "internal/report",
}

func folder(dir string) (key string) {
	for k := range allowed {
		if (dir == k || strings.HasPrefix(dir, k+"/")) && len(k) > len(key) {
			key = k
		}
	}
	return key
}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		key := folder(dir)
		require.NotEmpty(t, key, "%s: its folder is not in the table", rel)
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		seen++
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			for prefix, owner := range external {
				if strings.HasPrefix(name, prefix) {
					require.Equal(t, owner, key, "%s imports %s", rel, name)
				}
			}
			own, isOwn := strings.CutPrefix(name, module)
			if own == "planner/tile" || own == "planner/element" || own == "planner/encoding" {
				own = "planner"
			}
			switch {
			case isOwn && strings.HasPrefix(own, key):
			case isOwn:
				require.Contains(t, allowed[key], own, "%s", rel)
			case strings.Contains(name, "."):
				require.NotContains(t, []string{"planner", "wgsl"}, key, "%s imports %s: standard library only", rel, name)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, seen, 20)
}
