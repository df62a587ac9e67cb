// Package objects compiles C and C++ for tests, and keeps the results in bin/objects. A test that compiles
// the same text again takes the file that is there.
package objects

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batchgemm/batchgemm/internal/sample"
)

// unused is how long a file stays that no test takes.
const unused = 14 * 24 * time.Hour

// Compile runs a compiler. Its arguments name the file that it makes after -o. The file becomes a link to
// what an equal run made: by the same compiler with the same arguments, from the same objects and the same
// text after preprocessing.
func Compile(compiler string, args ...string) error {
	to := slices.Index(args, "-o") + 1
	root, err := sample.Root()
	if to == 0 || err != nil {
		return run(compiler, args)
	}
	sum := sha256.New()
	if err := describe(sum, compiler, slices.Delete(slices.Clone(args), to-1, to+1)); err != nil {
		return err
	}
	dir := filepath.Join(root, "bin", "objects")
	kept, now := filepath.Join(dir, fmt.Sprintf("%x", sum.Sum(nil)[:16])), time.Now()
	if os.Chtimes(kept, now, now) != nil { // not there
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		clean(dir, now.Add(-unused))
		made := fmt.Sprint(kept, ".", os.Getpid(), ".", now.UnixNano()) // others may make it too
		if err := run(compiler, slices.Replace(slices.Clone(args), to, to+1, made)); err != nil {
			return err
		}
		if err := os.Rename(made, kept); err != nil {
			return err
		}
	}
	return os.Symlink(kept, args[to])
}

// describe writes all that the result of a compiler depends on.
func describe(sum hash.Hash, compiler string, args []string) error {
	path, err := exec.LookPath(compiler)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Fprintln(sum, compiler, info.Size(), info.ModTime())
	text, sources := []string{"-E", "-P"}, false
	for _, arg := range args {
		switch filepath.Ext(arg) {
		case ".o":
			object, err := os.ReadFile(arg)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%x\n", sha256.Sum256(object))
			continue
		case ".c", ".cpp":
			sources = true
		default:
			fmt.Fprintf(sum, "%q\n", arg)
		}
		if arg != "-c" && arg != "-shared" && !strings.HasPrefix(arg, "-l") {
			text = append(text, arg)
		}
	}
	if !sources {
		return nil
	}
	cmd, said := exec.Command(compiler, text...), new(strings.Builder)
	cmd.Stdout, cmd.Stderr = sum, said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", compiler, strings.Join(text, " "), err, said)
	}
	return nil
}

// clean removes files that no test took since then.
func clean(dir string, since time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(since) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func run(compiler string, args []string) error {
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", compiler, strings.Join(args, " "), err, out)
	}
	return nil
}
