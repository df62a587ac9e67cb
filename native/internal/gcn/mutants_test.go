package gcn

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/tile"
	"github.com/stretchr/testify/require"
)

// without is a kernel that lacks instructions, which take no time then.
func (k *Kernel) without(at ...int) *Kernel {
	own := *k
	own.code = slices.Clone(k.code)
	gone := &operation{name: removed, unit: salu}
	for _, i := range at {
		own.code[i] = instruction{address: k.code[i].address, text: removed + " " + k.code[i].text, operation: gone, run: nothing}
	}
	return &own
}

func TestExplore(t *testing.T) {
	filter := os.Getenv("EXPLORE")
	if filter == "" {
		t.Skip()
	}
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		o := readProduct(t, name)
		for _, shape := range tile.Of(tile.FMA) {
			for _, v := range arch.Variants(shape) {
				kn := arch.KernelName(v)
				if !strings.Contains(name+"/"+kn, filter) {
					continue
				}
				t.Run(name+"/"+kn, func(t *testing.T) {
					t.Parallel()
					jobs := tileJobs(t, arch, shape, v.TransA, v.TransB)
					jobs = slices.DeleteFunc(jobs, func(j *job) bool {
						return !slices.ContainsFunc(j.plan.Launches, func(l encoding.Launch) bool { return arch.KernelName(l.Kernel) == kn })
					})
					k := o.Kernels[kn]
					for i, in := range k.code {
						if !strings.HasPrefix(in.name, "s_waitcnt") && in.name != "s_barrier" && in.name != "s_nop" {
							continue
						}
						mutated := *o
						mutated.Kernels = map[string]*Kernel{}
						for n, other := range o.Kernels {
							mutated.Kernels[n] = other
						}
						mutated.Kernels[kn] = k.without(i)
						ran := map[string][]bool{}
						var found error
						for b, j := range jobs {
							if _, found = j.run(&mutated, arch, b%2 == 1, ran); found != nil {
								break
							}
						}
						state := "NOTICED"
						msg := ""
						if found == nil {
							state = "unnoticed"
							if !ran[kn][i] {
								state = "notrun"
							}
						} else {
							msg = found.Error()
							if n := strings.LastIndex(msg, ": "); n > 0 {
								msg = msg[n:]
							}
						}
						prev := ""
						if i > 0 {
							prev = k.code[i-1].text
						}
						next := k.code[i+1].text
						t.Logf("%s %x %s | %s | prev %s next %s", state, in.address, in.text, msg, prev, next)
					}
				})
			}
		}
	}
}
