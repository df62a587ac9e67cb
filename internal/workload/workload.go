// Package workload reads and names the batches that tests, benchmarks, examples and the command share.
package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/batchgemm/batchgemm/planner"
)

// ErrUnknown: no workload has this name, or its parameters are wrong.
var ErrUnknown = errors.New("unknown workload")

// forms are workloads with random sizes, by the start of their names.
var forms = map[string]func(params string) ([]planner.Problem, error){"random": parseRandom, "moe": parseMoE}

// Workload is a batch with a name.
type Workload struct {
	Name  string
	Batch planner.Batch // packed
	// Operands are the matrices that came with the workload, placed as in Batch; nil if it only has sizes.
	Operands *Operands
}

// Load finds a workload by name:
//
//	inception-1 .. inception-9, zhang-512-1024-256   built in, see Names
//	random:mn=512,k=128,batch=64,seed=1              see random
//	moe:experts=128,top=8,tokens=1024,n=1536,k=2048,skew=0.3,seed=1
//	                                                 see moe
//	FILE or -                                        sizes, see parse, or matrices, see readNPZ; - is stdin
//
// Errors about the name wrap ErrUnknown; all others are about the content. Matrices are float32.
func Load(name string, stdin io.Reader) (*Workload, error) {
	return LoadOf(name, stdin, new(planner.Options))
}

// LoadOf is Load for the element types of options: numbers of a file are those of an array of a type, and B
// of 4 bits is in panels. Random sizes have a K of whole groups.
func LoadOf(name string, stdin io.Reader, o *planner.Options) (*Workload, error) {
	if name == "-" {
		return read(stdin, name, "stdin", o)
	}
	if problems, found := builtin(name); found {
		return pack(name, name, problems, o)
	}
	if form, params, cut := strings.Cut(name, ":"); cut && forms[form] != nil {
		problems, err := forms[form](params)
		if err != nil {
			return nil, err
		}
		if form == "random" {
			wholeGroups(problems, o)
		}
		return pack(name, name, problems, o)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, explainMissing(name, err)
	}
	defer f.Close()
	return read(f, name, name, o)
}

// Read reads a batch from the content of a file: sizes or matrices, like Load.
func Read(name string, content []byte) (*Workload, error) {
	return read(bytes.NewReader(content), name, name, new(planner.Options))
}

func pack(name, label string, problems []planner.Problem, o *planner.Options) (*Workload, error) {
	err := room(len(problems))
	var batch planner.Batch
	if err == nil {
		batch, err = place(problems, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", label, err)
	}
	return &Workload{Name: name, Batch: batch}, nil
}

// How files start.
const (
	zipMagic = "PK"
	npyMagic = "\x93NUMPY"
)

// read distinguishes matrices from sizes by the start of the file, or its name. Errors start with the label.
func read(from io.Reader, name, label string, o *planner.Options) (*Workload, error) {
	in := bufio.NewReader(from)
	head, _ := in.Peek(len(npyMagic)) // the error occurs again
	switch {
	case string(head) == npyMagic:
		return nil, fmt.Errorf("%s is a .npy file with one array, want .npz with A0, B0[, C0], A1 and so "+
			"on, as numpy.savez writes it", label)
	case bytes.HasPrefix(head, []byte(zipMagic)), strings.HasSuffix(name, ".npz"):
		w := &Workload{Name: name}
		err := randomAccess(from, in, func(archive io.ReaderAt, size int64) (err error) {
			w.Batch, w.Operands, err = readNPZ(archive, size, o)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		return w, nil
	}
	problems, err := parse(in, label)
	if err != nil {
		return nil, err
	}
	return pack(name, label, problems, o)
}

// randomAccess passes a file or memory to read, or a temporary copy of a pipe, because the directory of an
// archive is at its end. in is from, from its start on.
func randomAccess(from, in io.Reader, read func(archive io.ReaderAt, size int64) error) error {
	if memory, is := from.(*bytes.Reader); is {
		return read(memory, memory.Size())
	}
	if f, isFile := from.(*os.File); isFile {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return read(f, info.Size())
		}
	}
	spool, err := os.CreateTemp("", "batchgemm-*.npz")
	if err != nil {
		return err
	}
	os.Remove(spool.Name())       // at once, in case of a signal; not on Windows,
	defer os.Remove(spool.Name()) // where it must be closed first
	defer spool.Close()
	size, err := io.Copy(spool, in)
	if err != nil {
		return err
	}
	return read(spool, size)
}

// explainMissing lists the names if no file has that name.
func explainMissing(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w %q: not a file, nor inception-1 .. inception-%d, zhang-MN-K-BATCH, "+
		"random:mn=N,k=N,batch=N,seed=N or moe:experts=N,top=N,tokens=N,n=N,k=N,skew=X,seed=N",
		ErrUnknown, name, len(inception))
}
