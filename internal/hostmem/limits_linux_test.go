package hostmem

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/cgroup"
)

// system returns a machine with 24 GiB available and no other limit.
func system(more map[string]string) fs.FS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal:       33554432 kB\nMemFree:        20000000 kB\nMemAvailable:   " +
			"25165824 kB\n",
		"proc/self/limits": limitsFile("unlimited", "unlimited"),
		"proc/self/status": "Name:\tx\nVmPeak:\t 2000000 kB\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func limitsFile(data, space string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max cpu time              unlimited            unlimited            seconds   \n" +
		"Max data size             " + data + "            unlimited            bytes     \n" +
		"Max address space         " + space + "            unlimited            bytes     \n"
}

const (
	mountV1 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:3 - cgroup cgroup rw,cpu\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:4 - cgroup cgroup rw,memory\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	mountV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 " +
		"rw,nsdelegate,memory_recursiveprot\n"
	unlimited = "9223372036854771712\n"
)

func TestTightestLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		idle  int64
		want  limit
	}{
		{name: "the machine", want: limit{"the machine's memory", 24*gib - spare, false}},
		{
			name:  "address space",
			files: map[string]string{"proc/self/limits": limitsFile("unlimited", "4294967296")},
			want:  limit{"RLIMIT_AS", 3*gib - spareSpace, true},
		},
		{
			name:  "address space, most of it in the heap, idle",
			files: map[string]string{"proc/self/limits": limitsFile("unlimited", "1073741824")},
			idle:  gib / 2,
			want:  limit{"RLIMIT_AS", gib / 2, true},
		},
		{
			name:  "address space is used up",
			files: map[string]string{"proc/self/limits": limitsFile("unlimited", "1000000")},
			want:  limit{"RLIMIT_AS", 0, true},
		},
		{
			name:  "data",
			files: map[string]string{"proc/self/limits": limitsFile("1073741824", "4294967296")},
			want:  limit{"RLIMIT_DATA", gib/2 - spareSpace, true},
		},
		{
			name: "version 2, with page cache that can go",
			files: map[string]string{
				"proc/self/mountinfo":              mountV2,
				"proc/self/cgroup":                 "0::/a/b\n",
				"sys/fs/cgroup/a/b/memory.max":     "1073741824\n",
				"sys/fs/cgroup/a/b/memory.current": "536870912\n",
				"sys/fs/cgroup/a/b/memory.stat": "anon 1\nfile 3\ninactive_file_x 7\ninactive_file " +
					"268435456\nactive_file 4096\n",
				"sys/fs/cgroup/a/memory.max":         "max\n",
				"sys/fs/cgroup/a/memory.current":     "536870912\n",
				"sys/fs/cgroup/unrelated/memory.max": "1\n",
			},
			want: limit{"memory.max of cgroup /a/b", gib*3/4 - spare, false},
		},
		{
			name: "version 2, the parent is tighter",
			files: map[string]string{
				"proc/self/mountinfo":              mountV2,
				"proc/self/cgroup":                 "0::/a/b\n",
				"sys/fs/cgroup/a/b/memory.max":     "1073741824\n",
				"sys/fs/cgroup/a/b/memory.current": "0\n",
				"sys/fs/cgroup/a/memory.max":       "2147483648\n",
				"sys/fs/cgroup/a/memory.current":   "1610612736\n",
			},
			want: limit{"memory.max of cgroup /a", gib/2 - spare, false},
		},
		{
			name: "version 2, a container that sees its group as the root",
			files: map[string]string{
				"proc/self/mountinfo":          mountV2,
				"proc/self/cgroup":             "0::/\n",
				"sys/fs/cgroup/memory.max":     "1073741824\n",
				"sys/fs/cgroup/memory.current": "1073745920\n",
			},
			want: limit{"memory.max of cgroup /", 0, false},
		},
		{
			name: "version 1",
			files: map[string]string{
				"proc/self/mountinfo": mountV1,
				"proc/self/cgroup":    "5:cpu,cpuacct:/elsewhere\n4:memory:/jobs/x:1\n0::/\n",
				"sys/fs/cgroup/memory/jobs/x:1/memory.limit_in_bytes": "536870912\n",
				"sys/fs/cgroup/memory/jobs/x:1/memory.usage_in_bytes": "402653184\n",
				"sys/fs/cgroup/memory/jobs/x:1/memory.stat": "inactive_file " +
					"5\ntotal_inactive_file 134217728\n",
				"sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": unlimited,
				"sys/fs/cgroup/memory/jobs/memory.usage_in_bytes": "402653184\n",
			},
			want: limit{"memory.limit_in_bytes of cgroup /jobs/x:1", gib/4 - spare, false},
		},
		{
			name: "version 1, a container with the path of its host",
			files: map[string]string{
				"proc/self/mountinfo": "35 31 0:32 /docker/0a1b " +
					"/sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
				"proc/self/cgroup":                           "4:memory:/docker/0a1b/inner\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
				"sys/fs/cgroup/memory/memory.usage_in_bytes": "536870912\n",
			},
			want: limit{"memory.limit_in_bytes of cgroup /", gib/2 - spare, false},
		},
		{
			name: "a path outside of what is mounted",
			files: map[string]string{
				"proc/self/mountinfo":          mountV2,
				"proc/self/cgroup":             "0::/../../elsewhere\n",
				"sys/fs/cgroup/memory.max":     "1073741824\n",
				"sys/fs/cgroup/memory.current": "0\n",
			},
			want: limit{"memory.max of cgroup /", gib - spare, false},
		},
		{
			name: "files that say nothing",
			files: map[string]string{
				"proc/meminfo": "MemAvailable:\n", "proc/self/limits": "Max address space\n",
				"proc/self/status":    "",
				"proc/self/mountinfo": "\n1 2 3 - \n - cgroup2 x\n" + mountV2, "proc/self/cgroup": "0\n",
				"sys/fs/cgroup/memory.max": "many\n",
			},
			want: limit{"the address space", addressSpace, true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, tightest(read(system(c.files), c.idle), demand{}))
		})
	}
	require.Equal(t, limit{"the address space", addressSpace, true},
		tightest(read(fstest.MapFS{}, 0), demand{}))
}

// This machine's files can be parsed.
func TestLimitsOfThisProcess(t *testing.T) {
	found := limits(mapped)
	require.NotEmpty(t, found)
	require.Equal(t, "the machine's memory", found[0].name)
	require.Positive(t, found[0].left)
	_, err := os.Stat("/proc/self/mountinfo")
	require.NoError(t, err)
	for _, g := range cgroup.Of(os.DirFS("/"), "memory") {
		for dir := range g.Up() {
			require.True(t, fs.ValidPath(dir), dir)
			require.True(t, strings.HasPrefix(g.Name(dir), "/"), dir)
		}
	}
}

func BenchmarkLook(b *testing.B) {
	for b.Loop() {
		limits(heap)
	}
}
