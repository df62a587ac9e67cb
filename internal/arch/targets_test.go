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

// TestTargets checks types, in tests too, of builds for other systems, and without cgo. Compiling them would
// take minutes, most of them for the standard library.
func TestTargets(t *testing.T) {
	if !*targets {
		t.Skip("make vet does this")
	}
	for _, system := range []string{"linux/amd64", "linux/386", "windows/amd64", "darwin/arm64", "js/wasm"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			name, machine, _ := strings.Cut(system, "/")
			list := exec.Command("go", "list", "-buildmode=default", "-deps", "-test",
				"-json=Dir,ImportPath,ImportMap,GoFiles,Module", "./...")
			list.Dir = "../.."
			list.Env = append(list.Environ(), "GOOS="+name, "GOARCH="+machine, "CGO_ENABLED=0")
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
// module's it takes what they export.
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
		for _, name := range p.GoFiles {
			if !filepath.IsAbs(name) {
				name = filepath.Join(p.Dir, name)
			}
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			parsed = append(parsed, file)
		}
		config := types.Config{Importer: checked{packages, p.ImportMap}, IgnoreFuncBodies: !own,
			Sizes: sizes, Error: func(err error) {
				if own {
					t.Error(err)
				}
			}}
		path, _, _ := strings.Cut(p.ImportPath, " ")
		packages[p.ImportPath], _ = config.Check(path, files, parsed, nil)
	}
}
