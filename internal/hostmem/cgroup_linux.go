package hostmem

import (
	"io/fs"
	"path"

	"github.com/batchgemm/batchgemm/internal/cgroup"
)

// counted are the files of a control group that count memory.
type counted struct {
	limit, usage, cache string // and the line of memory.stat that counts what the kernel drops first
}

var (
	countedV1 = counted{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	countedV2 = counted{"memory.max", "memory.current", "inactive_file"}
)

// left returns what the limit of a group leaves. Page cache that was not used lately counts as usage, but
// the kernel drops it before it kills (kubelet counts like this).
func (c *counted) left(root fs.FS, dir string) (int64, bool) {
	limit, limited := cgroup.Number(root, path.Join(dir, c.limit), "")
	usage, ok := cgroup.Number(root, path.Join(dir, c.usage), "")
	cache, _ := cgroup.Number(root, path.Join(dir, "memory.stat"), c.cache+" ")
	return limit - usage + cache, limited && ok
}
