// Package arch checks the layers of the repository.
package arch

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/batchgemm/batchgemm/"

// layers are the layers from top to bottom. A package imports packages of lower layers only, so backends do
// not know each other. A name stands for its folder and the folders below it without a name of their own;
// these may import each other. Tests may import more.
//
// Some packages stand where users look for them, whatever their layer. dispatch/driver is what backends
// implement, so it is below them. planner/devices knows GPUs with their kernels, so it is above the text of
// kernels. planner/element and internal/tile are below what uses them.
var layers = []struct {
	what     string
	packages []string
}{
	{"callers", []string{"cmd", "capi", "examples", "gonumgemm", "internal/soak"}},
	{"the API", []string{"dispatch"}},
	{"checks of backends", []string{"internal/selfcheck"}},
	{"over backends", []string{"internal/hostgemm", "internal/ratefile", "internal/clocks",
		"internal/fakedriver"}},
	{"backends", []string{"webgpu", "native/cuda", "native/hip", "internal/cpu"}},
	{"the backend that CUDA and HIP share", []string{"internal/dl"}},
	{"tests of backends", []string{"internal/drivertest", "internal/results"}},
	{"what backends share", []string{"internal/backend"}},
	{"references, rivals, reports", []string{"internal/reference", "internal/workload", "internal/cublas",
		"internal/openblas", "internal/report", "internal/browserexec"}},
	{"memory, files, measurements", []string{"internal/hostmem", "internal/matrices", "internal/npz",
		"internal/bench",
		"internal/timeline", "internal/tune"}},
	{"what backends fulfil", []string{"dispatch/driver"}},
	{"known GPUs", []string{"planner/devices", "internal/ownrates"}},
	{"text of kernels", []string{"wgsl", "native"}},
	{"planner", []string{"planner"}},
	{"what backends read of a plan", []string{"internal/encoding"}},
	{"what is known of types", []string{"internal/elemtype"}},
	{"types and tile shapes", []string{"planner/element", "internal/tile"}},
	{"compilers of tests", []string{"internal/objects"}},
	{"leaves", []string{"internal/arch", "internal/atomicfile", "internal/browser", "internal/cgroup",
		"internal/codeobject", "internal/hardware", "internal/invalid", "internal/occupancy",
		"internal/kernelfile", "internal/sample", "internal/version"}},
}

// plain are packages that import only the standard library and packages of the module.
var plain = []string{"planner", "planner/element", "internal/elemtype", "internal/tile",
	"internal/encoding", "wgsl"}

// likeUsers are callers that may import only what users can. Those of examples/browser, which measure, are
// exempt.
var likeUsers = regexp.MustCompile(`^(capi|examples)(/|$)`)

// external lists the only importers of modules that must stay in one place.
var external = map[string]string{
	"github.com/rajveermalviya/go-webgpu": "webgpu",
	"github.com/spf13/cobra":              "cmd",
	"gonum.org/v1/plot":                   "internal/report",
	"gonum.org/v1/gonum/blas":             "gonumgemm",
	"gonum.org/v1/gonum/mat":              "gonumgemm",
}

// place returns the longest name in layers that a package belongs to, and the number of its layer.
func place(dir string) (name string, layer int) {
	for i, l := range layers {
		for _, p := range l.packages {
			if (dir == p || strings.HasPrefix(dir, p+"/")) && len(p) > len(name) {
				name, layer = p, i
			}
		}
	}
	return name, layer
}

func TestImports(t *testing.T) {
	seen := 0
	for _, file := range sources(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		seen++
		dir := path.Dir(file)
		name, layer := place(dir)
		require.NotEmpty(t, name, "%s: its folder is in no layer", file)
		for _, imported := range imports(t, file) {
			for prefix, owner := range external {
				if strings.HasPrefix(imported, prefix) {
					require.Equal(t, owner, name, "%s imports %s", file, imported)
				}
			}
			own, isOwn := strings.CutPrefix(imported, module)
			to, below := place(own)
			switch {
			case !isOwn:
				require.False(t, slices.Contains(plain, name) && strings.Contains(imported, "."),
					"%s imports %s: standard library only", file, imported)
			case to != name:
				require.NotEmpty(t, to, "%s imports %s, which is in no layer", file, own)
				require.Greater(t, below, layer, "%s (%s) imports %s (%s): not a lower layer",
					file, layers[layer].what, own, layers[below].what)
				require.False(t, likeUsers.MatchString(dir) && !strings.HasPrefix(dir, "examples/browser") &&
					!strings.HasPrefix(own, "dispatch") && !strings.HasPrefix(own, "planner"),
					"%s imports %s, which users cannot", file, own)
			}
		}
	}
	require.Greater(t, seen, 200)
}

// sources lists the files of the repository with these endings, by their paths from its root.
func sources(t *testing.T, endings ...string) (files []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(at string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && at != root ||
			at == filepath.Join(root, "bin")):
			return filepath.SkipDir
		case d.Type().IsRegular() && slices.Contains(endings, filepath.Ext(at)):
			rel, err := filepath.Rel(root, at)
			files = append(files, filepath.ToSlash(rel))
			return err
		}
		return nil
	})
	require.NoError(t, err)
	return files
}

func imports(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", file), nil,
		parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		names = append(names, name)
	}
	return names
}

// modules are those of the Python package, from bottom to top.
var modules = []string{"_abi", "_memory", "_objects", "_core", "_int4", "_arrays", "_device",
	"__init__", "_optional", "_ends", "_invariant", "_programs", "_operators", "_gradients", "_lists",
	"_gates", "_routing", "_layer", "_layer_gradients", "_fused", "_quantized", "_experts",
	"torch", "transformers"}

var (
	fromModule = regexp.MustCompile(`(?m)^\s*from \.(\w+) import`)
	fromHere   = regexp.MustCompile(`(?m)^\s*from \. import (\w+(?:, \w+)*)`)
)

// TestPythonImports: no module of the Python package imports one above it, not even in a function.
func TestPythonImports(t *testing.T) {
	files, err := filepath.Glob("../../python/batchgemm/*.py")
	require.NoError(t, err)
	require.Len(t, files, len(modules))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var names []string
		for _, m := range fromModule.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		for _, m := range fromHere.FindAllStringSubmatch(string(text), -1) {
			names = append(names, strings.Split(m[1], ", ")...)
		}
		at := slices.Index(modules, strings.TrimSuffix(filepath.Base(file), ".py"))
		for _, name := range names {
			require.Contains(t, modules[:max(at, 0)], name, "%s imports it", file)
		}
	}
}
