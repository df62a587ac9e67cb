// Package workload reads and names the batches that tests, benchmarks, examples
// and the command share.
package workload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/batchgemm/batchgemm/planner"
)

// ErrUnknown: there is no workload of this name, or its parameters are wrong.
var ErrUnknown = errors.New("unknown workload")

// Workload is a batch with a name.
type Workload struct {
	Name  string
	Batch planner.Batch // packed
	// Operands are the matrices that came with the workload, laid out as Batch
	// says; nil when it has sizes only.
	Operands *Operands
}

// Load finds a workload by name:
//
//	inception-1 .. inception-9, zhang-512-1024-256   built in, see Names
//	random:mn=512,k=128,batch=64,seed=1              see Random
//	FILE.npz                                         matrices, see ReadNPZ
//	FILE or -                                        sizes, see Parse; - is stdin
//
// Errors about the name wrap ErrUnknown; all others are about the content.
func Load(name string, stdin io.Reader) (*Workload, error) {
	problems, isBuiltin := builtin(name)
	params, isRandom := strings.CutPrefix(name, "random:")
	var err error
	switch {
	case isBuiltin:
	case isRandom:
		problems, err = parseRandom(params)
	case name == "-":
		problems, err = Parse(stdin, "stdin")
	case strings.HasSuffix(name, ".npz"):
		w, err := ReadNPZ(name)
		return w, explainMissing(name, err)
	default:
		problems, err = parseFile(name)
	}
	if err != nil {
		return nil, explainMissing(name, err)
	}
	batch, err := planner.Pack(problems...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Workload{Name: name, Batch: batch}, nil
}

func parseFile(path string) ([]planner.Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f, path)
}

// explainMissing says what names there are when there is no file of that name.
func explainMissing(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w %q: not a file, nor inception-1 .. inception-%d, zhang-MN-K-BATCH or random:mn=N,k=N,batch=N,seed=N",
		ErrUnknown, name, len(inception))
}
