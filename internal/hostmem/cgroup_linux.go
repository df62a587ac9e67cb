package hostmem

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// hierarchy is a tree of control groups that count memory, and the place of the
// process in it. Paths count from the root of the file system.
type hierarchy struct {
	mount, dir          string
	limit, usage, cache string // files, and the line of memory.stat that counts what the kernel drops first
}

// left is what the limit of a group leaves. Page cache that nobody used lately
// counts as usage, but the kernel drops it before it kills (as kubelet reckons).
func (h *hierarchy) left(root fs.FS, dir string) (int64, bool) {
	limit, limited := number(root, path.Join(dir, h.limit), "")
	usage, ok := number(root, path.Join(dir, h.usage), "")
	cache, _ := number(root, path.Join(dir, "memory.stat"), h.cache+" ")
	return limit - usage + cache, limited && ok
}

// hierarchies finds the groups of the process: of version 1, 2, or both, of which
// one counts memory.
func hierarchies(root fs.FS) (found []hierarchy) {
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
		h := hierarchy{mount: strings.TrimPrefix(at[4], "/")}
		controller := ""
		switch {
		case kind[0] == "cgroup2":
			h.limit, h.usage, h.cache = "memory.max", "memory.current", "inactive_file"
		case kind[0] == "cgroup" && hasWord(kind[2], "memory"):
			controller = "memory"
			h.limit, h.usage, h.cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
		default:
			continue
		}
		h.dir = path.Join(h.mount, within(group(root, controller), at[3]))
		found = append(found, h)
	}
	return found
}

// group is the path of the process's group in the hierarchy of a controller of
// version 1, or in that of version 2 if the name is empty.
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

// within is the path of a group below the group that is mounted. A container sees
// its own group as the mount, whatever the path says.
func within(group, mounted string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(mounted, "/"))
	if !ok || rest != "" && rest[0] != '/' || strings.Contains(rest, "..") {
		return ""
	}
	return rest
}
