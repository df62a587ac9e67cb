package arch

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var targets = flag.Bool("targets", false, "check types of builds for other systems")

// TestTargets checks types, in tests too, of builds for other systems, without cgo, and without some of the
// backends. Compiling them would take minutes, most of them for the standard library.
func TestTargets(t *testing.T) {
	if !*targets {
		t.Skip("make vet does this")
	}
	for _, c := range []struct{ system, cgo, tags string }{
		{"linux/amd64", "0", ""},
		{"linux/386", "0", ""},
		{"windows/amd64", "0", ""},
		{"darwin/arm64", "0", ""},
		{"js/wasm", "0", ""},
		{"linux/amd64", "1", "nocuda"},
		{"linux/amd64", "1", "nohip"},
		{"linux/amd64", "1", "nowebgpu"},
		{"linux/amd64", "1", "nocuda,nohip,nowebgpu"},
	} {
		t.Run(c.system+" "+c.tags, func(t *testing.T) {
			t.Parallel()
			name, machine, _ := strings.Cut(c.system, "/")
			list := exec.Command("go", "list", "-buildmode=default", "-deps", "-test", "-tags", c.tags,
				"-json=Dir,ImportPath,ImportMap,GoFiles,CgoFiles,Module", "./...")
			list.Dir = "../.."
			list.Env = append(list.Environ(), "GOOS="+name, "GOARCH="+machine, "CGO_ENABLED="+c.cgo)
			out, err := list.Output()
			require.NoError(t, err)
			checkTypes(t, out, types.SizesFor("gc", machine))
		})
	}
}

// listed is a package as go list prints it.
type listed struct {
	Dir, ImportPath string
	ImportMap       map[string]string
	GoFiles         []string
	CgoFiles        []string
	Module          *struct{ Path string }
}

// checked has the packages that a package may import.
type checked struct {
	packages map[string]*types.Package
	paths    map[string]string
}

func (c checked) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if other := c.paths[path]; other != "" {
		path = other
	}
	return c.packages[path], nil
}

// checkTypes checks packages, in an order in which what is imported comes first. Of others than this
// module's it takes what they export, and of C nothing.
func checkTypes(t *testing.T, list []byte, sizes types.Sizes) {
	packages, files := map[string]*types.Package{}, token.NewFileSet()
	for d := json.NewDecoder(strings.NewReader(string(list))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		own := p.Module != nil && p.Module.Path+"/" == module
		var parsed []*ast.File
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(p.Dir, name)
			}
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			parsed = append(parsed, file)
		}
		config := types.Config{Importer: checked{packages, p.ImportMap}, IgnoreFuncBodies: !own,
			FakeImportC: true, Sizes: sizes, Error: func(err error) {
				if own && p.CgoFiles == nil { // types of C are not known
					t.Error(err)
				}
			}}
		path, _, _ := strings.Cut(p.ImportPath, " ")
		packages[p.ImportPath], _ = config.Check(path, files, parsed, nil)
	}
}
