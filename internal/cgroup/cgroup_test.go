package cgroup

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const (
	mountV1 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:4 - cgroup cgroup rw,memory\n"
	mountV2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestProcessors(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"nothing is known", nil, math.Inf(1)},
		{"version 2", map[string]string{"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max": "50000 100000\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 0.5},
		{"version 2, the parent is tighter", map[string]string{"proc/self/mountinfo": mountV2,
			"proc/self/cgroup":          "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max": "250000 100000\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"},
			1.5},
		{"version 2, no quota", map[string]string{"proc/self/mountinfo": mountV2,
			"proc/self/cgroup":        "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, math.Inf(1)},
		{"version 1", map[string]string{"proc/self/mountinfo": mountV1,
			"proc/self/cgroup": "5:cpu,cpuacct:/jobs\n4:memory:/x\n",
			"sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us":  "30000\n",
			"sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":       "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":      "100000\n"}, 0.3},
		{"version 1, no quota", map[string]string{"proc/self/mountinfo": mountV1,
			"proc/self/cgroup":                            "5:cpu,cpuacct:/\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, math.Inf(1)},
		{"files that say nothing", map[string]string{"proc/self/mountinfo": mountV2 + mountV1,
			"proc/self/cgroup":      "0\n",
			"sys/fs/cgroup/cpu.max": "many\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "1000\n"},
			math.Inf(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range c.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.want, Processors(files))
		})
	}
}
