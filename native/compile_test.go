package native

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/objects"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
)

// emulator is a program with the kernels of kernels.hip, as C++ for the CPU, and
// internal/emulator/runner.cpp.
type emulator struct{ path string }

// sanitizer says which errors of memory or order an emulator reports.
type sanitizer struct {
	name    string
	kernels []string // flags for the kernels
	shim    []string // flags for what runs them
}

var (
	plain = sanitizer{name: "plain", kernels: []string{"-O0"}}
	// Accesses beyond arrays, and undefined arithmetic, except for addresses that kernels compute and do not
	// use, and for NaN as an integer, which is 0 on GPUs.
	address = sanitizer{"address", []string{"-O0", "-fsanitize=address,undefined",
		"-fno-sanitize=pointer-overflow,float-cast-overflow", "-fno-sanitize-recover=all"},
		[]string{"-DBG_SHIM_SANITIZER=1"}}
	// Races between threads of a group.
	thread = sanitizer{"thread", []string{"-O1", "-fsanitize=thread"}, []string{"-DBG_SHIM_SANITIZER=2"}}
	// None; but partials are counted, and B of thin tiles is copied, as in kernels for CUDA.
	asCUDA = sanitizer{name: "as CUDA", kernels: []string{"-O0", "-DBG_AS_CUDA"}}
	// Their accesses beyond arrays.
	asCUDAInBounds = sanitizer{"as CUDA in bounds", []string{"-O0", "-DBG_AS_CUDA", "-fsanitize=address"},
		[]string{"-DBG_SHIM_SANITIZER=1"}}
)

// requireTool skips a test without the compiler that it needs, unless the list BATCHGEMM_REQUIRE has
// "clang".
func requireTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		skipUnlessRequired(t, "clang", err.Error())
	}
}

// skipUnlessRequired skips a test, or fails it if BATCHGEMM_REQUIRE has what.
func skipUnlessRequired(t *testing.T, what, reason string) {
	t.Helper()
	if required(what) {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// required reports whether the list BATCHGEMM_REQUIRE has what.
func required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("BATCHGEMM_REQUIRE"), ","), what)
}

const compiler = "clang++-19"

func compile(args ...string) error {
	args = append([]string{"-std=c++17", "-g1", "-Wall", "-Werror", "-Wno-unknown-pragmas"}, args...)
	return objects.Compile(compiler, args...)
}

// buildRuntime compiles what all emulators with a sanitizer share.
func buildRuntime(dir string, s sanitizer) (objects []string, err error) {
	for _, name := range []string{"shim", "runner"} {
		object := filepath.Join(dir, s.name+"-"+name+".o")
		if err := compile(append(slices.Clone(s.shim), "-O1", "-c",
			filepath.Join("internal", "emulator", name+".cpp"), "-o", object)...); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// buildEmulator compiles the kernels of a directory that is laid out like this one.
func buildEmulator(path, source string, s sanitizer, objects []string) (emulator, error) {
	args := append(slices.Clone(s.kernels), filepath.Join(source, "internal", "emulator", "kernels.cpp"))
	return emulator{path}, compile(append(append(args, objects...), "-o", path)...)
}

// buildWarpgroupRuntime compiles the code that runs kernels of wgmma.cuh on the CPU.
func buildWarpgroupRuntime(dir string) (objects []string, err error) {
	for _, name := range []string{"warpgroup", "products", "copies", "boxes"} {
		object := filepath.Join(dir, name+".o")
		if err := compile("-O2", "-c", filepath.Join("internal", "emulator", name+".cpp"), "-o",
			object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// buildWarpgroups compiles a file of kernels of a directory that is laid out like this one. The objects are
// told of all loads and stores, instead of a sanitizer's library.
func buildWarpgroups(path, source, file string, objects []string, flags ...string) (emulator, error) {
	kernels := path + "-kernels.o"
	args := append(slices.Clone(flags), "-O0", "-fsanitize=thread", "-c",
		filepath.Join(source, "internal", "emulator", file), "-o", kernels)
	err := compile(args...)
	if err == nil {
		err = compile(append(append(slices.Clone(flags), objects...), kernels, "-o", path)...)
	}
	return emulator{path}, err
}

// What tests share is built once, when a test first needs it, in a directory that TestMain removes: objects
// of the code that runs kernels, and emulators of the unchanged kernels.
var (
	scratch          string
	runtimes         = map[string]func() ([]string, error){}
	emulators        = map[string]func() (emulator, error){}
	warpgroupRuntime = sync.OnceValues(func() ([]string, error) { return buildWarpgroupRuntime(scratch) })
	warpgroupsAsAre  = sync.OnceValues(func() (emulator,
		error) {
		return buildAsAre("warpgroup_kernels.cpp")
	})
	doublesAsAre = sync.OnceValues(func() (emulator, error) { return buildAsAre("warpgroup_f64.cpp") })
	int4AsAre    = sync.OnceValues(func() (emulator, error) { return buildAsAre("warpgroup_int4.cpp") })
)

// buildAsAre compiles unchanged kernels of warpgroups.
func buildAsAre(file string) (emulator, error) {
	objects, err := warpgroupRuntime()
	if err != nil {
		return emulator{}, err
	}
	return buildWarpgroups(filepath.Join(scratch, file), ".", file, objects, "-fsanitize=undefined",
		"-fno-sanitize=pointer-overflow,float-cast-overflow", "-fno-sanitize-recover=all")
}

func init() {
	for _, s := range []sanitizer{plain, address, thread, asCUDA, asCUDAInBounds} {
		runtimes[s.name] = sync.OnceValues(func() ([]string, error) { return buildRuntime(scratch, s) })
		emulators[s.name] = sync.OnceValues(func() (emulator, error) {
			objects, err := runtimes[s.name]()
			if err != nil {
				return emulator{}, err
			}
			source, err := s.source()
			if err != nil {
				return emulator{}, err
			}
			return buildEmulator(filepath.Join(scratch, s.name), source, s, objects)
		})
	}
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "native")
	if err != nil {
		panic(err)
	}
	scratch = dir
	status := sample.Main(m, compiler)
	os.RemoveAll(dir)
	os.Exit(status)
}

// deviceText lists the files of device text, and of the code that runs it on the CPU.
func deviceText() (files []string, err error) {
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{"cuda", "hip", "products"}, name):
			return fs.SkipDir
		case slices.Contains([]string{".cu", ".cuh", ".h", ".hip", ".inc", ".cpp"}, filepath.Ext(name)):
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

// copySources writes the device text to a directory, with some files replaced.
func copySources(dir string, made map[string]string) error {
	files, err := deviceText()
	if err != nil {
		return err
	}
	for _, name := range files {
		text, isMade := made[filepath.ToSlash(name)]
		if !isMade {
			read, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = string(read)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tiles are the tiles of HIP that run in an emulator: a sample of all, and always one with K groups. With
// sanitizers it is a sample of those with epilogues, one of short K groups and one of many threads. For the
// others, except their epilogues, package gcn looks for accesses out of bounds and races in the compiled
// code.
func (s sanitizer) tiles() []*tile.Shape {
	return slices.DeleteFunc(tile.Of(tile.FMA), func(t *tile.Shape) bool {
		if t.Name == "small-k8" {
			return false
		}
		sanitized := t.Epilogues || t.Name == "medium-large"
		return !builds.OnHIP(t) || s.name != plain.name && !sanitized ||
			!sample.Kernels.PartDrawn(s.name+"/"+t.Name, 4)
	})
}

// source returns the directory with the kernels of its emulator.
func (s sanitizer) source() (dir string, err error) {
	dir = filepath.Join(scratch, s.name+"-source")
	return dir, copySources(dir, madeOf(s.tiles()...))
}

// compiled starts a test that runs code compiled by clang, in half of the time of g++. Few such tests run
// while the text is as in green.txt, because compiling takes longest.
func compiled(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
	requireTool(t, compiler)
	sample.Kernels.Skip(t, 1)
	t.Parallel()
}

// runtimeOf returns what all emulators with a sanitizer share.
func runtimeOf(t *testing.T, s sanitizer) (objects []string) {
	t.Helper()
	objects, err := runtimes[s.name]()
	require.NoError(t, err)
	return objects
}

// newEmulator has the kernels of this directory, for the tiles that it runs.
func newEmulator(t *testing.T, s sanitizer) emulator {
	t.Helper()
	e, err := emulators[s.name]()
	require.NoError(t, err)
	return e
}

// warpgroups returns the emulator of the unchanged kernels.
func warpgroups(t *testing.T) emulator {
	t.Helper()
	e, err := warpgroupsAsAre()
	require.NoError(t, err)
	return e
}

// runWarpgroups runs jobs in it.
func runWarpgroups(t *testing.T, jobs []*emulatorJob) {
	t.Helper()
	require.NoError(t, warpgroups(t).run(t.TempDir(), sample.Jobs(t, sample.Kernels, jobs)))
}
