// Package atomicfile writes files that appear complete or not at all.
package atomicfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a temporary file beside its target. It is not safe for concurrent use.
type File struct {
	*os.File
	path string
	done bool
}

// Create opens a temporary file in the folder of path, so that a target which
// cannot be written is known before any work is done for it. A target that
// exists must be a regular file: renaming over a device would replace it.
func Create(path string) (*File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	// CreateTemp makes private files; results are ordinary ones.
	if err := f.Chmod(0o644); err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	return &File{File: f, path: path}, nil
}

// Commit gives the file its name. The target is complete or untouched.
func (f *File) Commit() error {
	if f.done {
		return os.ErrClosed
	}
	f.done = true
	err := f.Sync()
	if e := f.File.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("%s: %w", f.path, cause(err))
	}
	return nil
}

// Close discards the file unless it was committed. It is idempotent.
func (f *File) Close() error {
	if f.done {
		return nil
	}
	f.done = true
	err := f.File.Close()
	if e := os.Remove(f.Name()); err == nil {
		err = e
	}
	return err
}

// cause drops the name of the temporary file from an error.
func cause(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}
