// Package atomicfile writes files that appear complete or not at all.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
)

// File is a file being written. It is not safe for concurrent use.
type File struct {
	io.Writer
	path   string   // as given, for errors
	file   *os.File // nil: a stream
	temp   string   // name of the temporary file, or "": writes are visible at once
	target string   // final name
	done   bool
}

// pending has the names of all temporary files, for Discard.
var pending sync.Map

// Create opens a temporary file beside the target, which is path or what symbolic links there lead to. So a
// target that cannot be written is known before any work is done. As with an ordinary file, a new target
// gets the permissions that the umask leaves. An old one keeps its permissions, and its owner if the user
// may give files away; other hard links keep the old content. A target without any write permission is
// refused, also for root, and so is one in a folder without write permission. Pipes and devices are opened
// directly.
func Create(path string) (*File, error) {
	f, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	f.Writer, f.path = f.file, path
	return f, nil
}

// Stream writes to w at once. Commit and Close leave it open.
func Stream(w io.Writer) *File { return &File{Writer: w} }

func create(path string) (*File, error) {
	old, err := os.Stat(path)
	exists := !errors.Is(err, fs.ErrNotExist)
	switch {
	case !exists:
	case err != nil:
		return nil, err
	case old.IsDir():
		return nil, errors.New("is a directory")
	case old.Mode().Perm()&0o222 == 0:
		return nil, fs.ErrPermission
	default:
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // fails if writing would
		if err != nil || !old.Mode().IsRegular() {
			return &File{file: f}, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	mode := fs.FileMode(0o666) // less the umask
	if exists {
		mode = 0o600 // until it has its owner
	}
	target := follow(path)
	dir, name := filepath.Split(target)
	temp := fmt.Sprintf("%s.%s.%016x.tmp", dir, name, rand.Uint64())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	pending.Store(temp, nil)
	made := &File{file: f, temp: temp, target: target}
	if exists {
		keepOwner(f, old)
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			made.Close()
			return nil, err
		}
	}
	return made, nil
}

// follow returns what a symbolic link leads to, which need not exist. It does not clean paths: after a link
// to a folder, ".." is another folder than it seems.
func follow(path string) string {
	const most = 40 // like Linux; os.Stat fails for longer chains
	for range most {
		link, err := os.Readlink(path)
		if err != nil {
			break // not a link
		}
		if !filepath.IsAbs(link) {
			dir, _ := filepath.Split(path)
			link = dir + link
		}
		path = link
	}
	return path
}

// Commit gives the file its name. The target is complete or untouched.
func (f *File) Commit() error {
	if f.done {
		return os.ErrClosed
	}
	f.done = true
	if f.file == nil {
		return nil
	}
	var err error
	if f.temp != "" {
		err = f.file.Sync()
	}
	if e := f.file.Close(); err == nil {
		err = e
	}
	if f.temp != "" {
		if err == nil {
			err = os.Rename(f.temp, f.target)
		}
		if err != nil {
			os.Remove(f.temp)
		}
		pending.Delete(f.temp)
	}
	if err != nil {
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
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	if f.temp != "" {
		if e := os.Remove(f.temp); err == nil {
			err = e
		}
		pending.Delete(f.temp)
	}
	return err
}

// Discard removes the temporary files of all open Files, for a process that is about to exit while others
// still write. It is safe for concurrent use.
func Discard() {
	pending.Range(func(temp, _ any) bool {
		os.Remove(temp.(string))
		return true
	})
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
