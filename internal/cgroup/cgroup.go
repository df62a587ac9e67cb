// Package cgroup finds the control groups of this process, of version 1, 2, or both, and reads their limits.
package cgroup

import (
	"bytes"
	"io/fs"
	"iter"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Group is the place of the process in a tree of control groups. Paths start at the root of the file system.
type Group struct {
	Unified    bool // of version 2
	mount, dir string
}

// Of returns the groups of the process in the trees that may have a controller, such as "memory" or "cpu":
// the controller's own tree, and that of version 2. Only one of them has it.
func Of(root fs.FS, controller string) (found []Group) {
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(mounts) {
		// 35 32 0:32 ROOT MOUNT rw,relatime - TYPE SOURCE OPTIONS
		left, right, _ := strings.Cut(string(line), " - ")
		at, kind := strings.Fields(left), strings.Fields(right)
		if len(at) < 5 || len(kind) < 3 {
			continue
		}
		g := Group{Unified: kind[0] == "cgroup2", mount: strings.TrimPrefix(at[4], "/")}
		of := controller
		switch {
		case g.Unified:
			of = ""
		case kind[0] != "cgroup" || !hasWord(kind[2], controller):
			continue
		}
		g.dir = path.Join(g.mount, within(group(root, of), at[3]))
		found = append(found, g)
	}
	return found
}

// Up goes from the folder of the group to those of its parents, whose limits also apply, as far as they are
// mounted.
func (g *Group) Up() iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := g.dir; yield(dir) && dir != g.mount; dir = path.Dir(dir) {
		}
	}
}

// Name returns the path in the tree of a folder of Up.
func (g *Group) Name(dir string) string { return "/" + strings.TrimPrefix(dir[len(g.mount):], "/") }

// group returns the path of the process's group in the hierarchy of a controller of version 1, or in that of
// version 2 if the name is empty.
func group(root fs.FS, controller string) string {
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		// 4:memory:/some/group
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && hasWord(fields[1], controller) {
			return fields[2]
		}
	}
	return "/"
}

func hasWord(list, word string) bool { return slices.Contains(strings.Split(list, ","), word) }

// within returns the path of a group below the group that is mounted. A container sees its own group as the
// mount, whatever the path says.
func within(group, mounted string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(mounted, "/"))
	if !ok || rest != "" && rest[0] != '/' || strings.Contains(rest, "..") {
		return ""
	}
	return rest
}

// Number reads the first number after a word at the start of a line of a file. The word may be empty.
func Number(root fs.FS, file, word string) (int64, bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(string(line), word)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(fields[0], 10, 64) // fails on "max" and "unlimited"
		return n, err == nil && n < math.MaxInt64>>10
	}
	return 0, false
}

// Processors returns how many processors the quotas of the process's groups allow; +Inf: no quota.
func Processors(root fs.FS) float64 {
	most := math.Inf(1)
	for _, g := range Of(root, "cpu") {
		for dir := range g.Up() {
			quota, period := int64(0), int64(0)
			if g.Unified {
				text, _ := fs.ReadFile(root, path.Join(dir, "cpu.max"))
				if fields := strings.Fields(string(text)); len(fields) == 2 { // 50000 100000, or max 100000
					quota, _ = strconv.ParseInt(fields[0], 10, 64)
					period, _ = strconv.ParseInt(fields[1], 10, 64)
				}
			} else {
				quota, _ = Number(root, path.Join(dir, "cpu.cfs_quota_us"), "") // -1: none
				period, _ = Number(root, path.Join(dir, "cpu.cfs_period_us"), "")
			}
			if quota > 0 && period > 0 {
				most = min(most, float64(quota)/float64(period))
			}
		}
	}
	return most
}
