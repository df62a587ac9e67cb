package native

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

// The products as stored, whatever this build embeds.
var (
	stored   = os.DirFS("products")
	products = kernelfile.New(stored)
)

// unpacked has the products that tests have read, each unpacked once.
var unpacked sync.Map // by file name, a func() ([]byte, error)

// read returns a product as it is loaded.
func read(t testing.TB, file string) []byte {
	t.Helper()
	once, _ := unpacked.LoadOrStore(file, sync.OnceValues(func() ([]byte, error) {
		return products.Read(file)
	}))
	code, err := once.(func() ([]byte, error))()
	require.NoError(t, err)
	return code
}

// product returns a file of products/, as stored.
func product(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(path.Join("products", name))
	require.NoError(t, err)
	return string(text)
}

// TestProductsAreCurrent fails if a source or a product changed after the products were built. Products are
// hashed as stored, so sha256sum -c checks them and no byte of a file is left out.
func TestProductsAreCurrent(t *testing.T) {
	listed := map[string]bool{"MANIFEST": true, "HIP-MANIFEST": true}
	cuda := len(sm80.products()) + len(sm90a.products()) + len(ptx.products()) + 1 // and resources.tsv
	for _, test := range []struct {
		manifest          string
		sources, products int
		remedy            string
	}{
		{"MANIFEST", 54, cuda, "run make cuda where nvcc is"},
		{"HIP-MANIFEST", 26, 6, "run make hip where clang-19 is"},
	} {
		t.Run(test.manifest, func(t *testing.T) {
			sources, made := 0, 0
			for line := range strings.Lines(product(t, test.manifest)) {
				if strings.HasPrefix(line, "#") {
					continue
				}
				fields := strings.Fields(line)
				require.Len(t, fields, 2, line)
				file, remedy := fields[1], test.remedy+" and commit the products"
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				switch path.Ext(file) {
				case ".zst", ".tsv":
					made++
					listed[path.Base(file)] = true
					remedy = "it is not what was built: take it from the repository again"
				default:
					sources++
				}
				sum := sha256.Sum256(text)
				require.Equal(t, fields[0], hex.EncodeToString(sum[:]), "%s changed: %s", file, remedy)
			}
			require.Equal(t, [2]int{test.sources, test.products}, [2]int{sources, made})
		})
	}
	files, err := os.ReadDir("products")
	require.NoError(t, err)
	for _, file := range files {
		require.True(t, listed[file.Name()] || path.Ext(file.Name()) == ".go", "no manifest has %s",
			file.Name())
	}
}

// TestEmbedded: programs embed only code that they can run, and nothing that only tests read.
func TestEmbedded(t *testing.T) {
	files := func(archs ...Arch) string {
		var want []string
		for _, arch := range archs {
			for _, file := range arch.products() {
				want = append(want, file+".zst")
			}
		}
		slices.Sort(want)
		return strings.Join(want, " ")
	}
	cuda, hip := files(sm80, sm90a, ptx), files(slices.Collect(maps.Values(hips))...)
	all := strings.Fields(cuda + " " + hip)
	slices.Sort(all)
	for _, test := range []struct{ name, env, tags, want string }{
		{"linux", "GOARCH=arm64", "", strings.Join(all, " ")},
		{"nocuda", "GOARCH=amd64", "nocuda", hip},
		{"nohip", "GOARCH=amd64", "nohip", cuda},
		{"no GPU", "GOARCH=amd64", "nocuda,nohip", ""},
		{"no cgo", "CGO_ENABLED=0", "", ""},
		{"other CPUs", "GOARCH=386", "", ""},
		{"windows", "GOOS=windows", "", ""},
		{"macOS", "GOOS=darwin", "", ""},
		{"browser", "GOOS=js GOARCH=wasm", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			list := exec.Command("go", "list", "-buildmode=default", "-tags", test.tags, "-f",
				"{{range .EmbedFiles}}{{.}} {{end}}", "./products")
			list.Env = append(os.Environ(), append([]string{"GOOS=linux", "CGO_ENABLED=1"},
				strings.Fields(test.env)...)...)
			out, err := list.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, test.want, strings.TrimSpace(string(out)))
		})
	}
}

// TestCubins compares the cubins with resources.tsv and with the PTX of the same build: the kernels, their
// registers and their static shared memory.
func TestCubins(t *testing.T) {
	compiled := map[string]bool{} // from the PTX
	for _, file := range ptx.products() {
		code := read(t, file)
		for _, m := range regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`).FindAllSubmatch(code, -1) {
			compiled[string(m[1])] = true
		}
	}
	table := cudaUsage(t)
	// Cubins for 9.0 include the 1 KB that the system takes in each group (NVIDIA, "CUDA C++ Programming
	// Guide", compute capability 9.0). The compiler's report does not.
	for _, test := range []struct {
		arch   Arch
		system int
	}{{sm80, 0}, {sm90a, 1 << 10}} {
		t.Run(test.arch.name, func(t *testing.T) {
			names, count := map[string]bool{}, 0
			for _, k := range test.arch.image() {
				names[test.arch.KernelName(k)] = true
			}
			for _, file := range test.arch.products() {
				kernels := cubinResources(t, file)
				for name, got := range kernels {
					want, ok := table[test.arch.name+" "+name]
					require.True(t, ok, name)
					require.True(t, names[name], "%s is never chosen", name)
					shared := want.shared + test.system
					if want.shared == 0 && got.shared == 0 {
						shared = 0 // a kernel that has no dynamic memory either lacks the section
					}
					require.Equal(t, [2]int{want.registers, shared}, [2]int{got.registers, got.shared}, name)
					require.True(t, test.arch.name != "sm_80" || compiled[name], "%s is not in the PTX", name)
				}
				count += len(kernels)
			}
			require.Len(t, names, count)
			require.Equal(t, len(test.arch.image()), count)
			require.True(t, test.arch.name != "sm_80" || count == len(compiled), "the PTX has %d kernels",
				len(compiled))
		})
	}
}

// cubinResources reads a cubin's description of its kernels: the size of .nv.shared.NAME, and the items with
// registers in .nv.info. An item is a byte for its form, one for its meaning and 16 bits. With form 4 that
// many bytes follow. cuobjdump prints the numbers as EIFMT_SVAL and EIATTR_REGCOUNT.
func cubinResources(t *testing.T, name string) map[string]usage {
	t.Helper()
	const sized, registerCount = 4, 0x2f
	code := bytes.Clone(read(t, name))
	binary.LittleEndian.PutUint32(code[20:], uint32(elf.EV_CURRENT)) // nvcc 12 writes its own version
	file, err := elf.NewFile(bytes.NewReader(code))
	require.NoError(t, err)
	symbols, err := file.Symbols()
	require.NoError(t, err)
	info, err := file.Section(".nv.info").Data()
	require.NoError(t, err)
	kernels := map[string]usage{}
	for len(info) >= 4 {
		form, meaning, size := info[0], info[1], int(binary.LittleEndian.Uint16(info[2:]))
		if info = info[4:]; form != sized {
			continue
		}
		require.LessOrEqual(t, size, len(info))
		if meaning == registerCount {
			// Symbols of debug/elf start after the empty one.
			kernel := symbols[binary.LittleEndian.Uint32(info)-1].Name
			u := usage{registers: int(binary.LittleEndian.Uint32(info[4:]))}
			if s := file.Section(".nv.shared." + kernel); s != nil {
				u.shared = int(s.Size)
			}
			kernels[kernel] = u
		}
		info = info[size:]
	}
	return kernels
}
