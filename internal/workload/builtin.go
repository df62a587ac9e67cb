package workload

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/batchgemm/batchgemm/planner"
)

// inception lists M, N, K of the GEMMs of nine Inception modules: Zhang et al.
// 2025, Table 6.
var inception = [...][][3]int{
	{{784, 96, 192}, {784, 64, 192}, {784, 32, 192}, {784, 16, 192}},
	{{784, 64, 192}, {784, 32, 192}, {784, 128, 192}},
	{{196, 192, 192}, {196, 16, 192}, {196, 96, 192}, {196, 64, 192}},
	{{196, 64, 192}, {196, 24, 192}, {196, 160, 192}},
	{{196, 64, 192}, {196, 128, 192}, {196, 24, 192}},
	{{196, 112, 192}, {196, 144, 192}, {196, 32, 192}, {196, 64, 192}},
	{{196, 256, 192}, {196, 160, 192}, {196, 128, 192}},
	{{49, 160, 192}, {49, 128, 192}, {49, 256, 192}, {49, 160, 192}, {49, 32, 192}},
	{{49, 192, 192}, {49, 128, 192}, {49, 384, 192}, {49, 192, 192}, {49, 48, 192}},
}

// Case is one batch of the sweep Zhang.
type Case struct {
	Name               string // zhang-MAXMN-MAXK-BATCH
	MaxMN, MaxK, Batch int
	Problems           []planner.Problem
}

//go:embed data/zhang-sweep.txt
var zhangText string

// Zhang returns the 72 batches of the sweep in the style of Zhang et al. 2025, section 5: sizes uniform in
// [16, max], max M = N of 128, 256 and 512, max K of 128 to 1024, batches of 8 to 256. The sizes are fixed,
// so that results can be compared over time. The result is shared and must not be changed.
var Zhang = sync.OnceValue(func() []Case {
	var cases []Case
	for _, text := range strings.Split(zhangText, "# case ")[1:] {
		c := Case{}
		if _, err := fmt.Sscan(text, &c.MaxMN, &c.MaxK, &c.Batch); err != nil {
			panic(err) // the embedded file is broken
		}
		c.Name = fmt.Sprintf("zhang-%d-%d-%d", c.MaxMN, c.MaxK, c.Batch)
		problems, err := parse(strings.NewReader("#"+text), c.Name)
		if err != nil {
			panic(err)
		}
		c.Problems = problems
		cases = append(cases, c)
	}
	return cases
})

// Names lists the built-in workloads.
func Names() []string {
	var names []string
	for i := range inception {
		names = append(names, fmt.Sprintf("inception-%d", i+1))
	}
	for _, c := range Zhang() {
		names = append(names, c.Name)
	}
	return names
}

func builtin(name string) ([]planner.Problem, bool) {
	for i, sizes := range inception {
		if name == fmt.Sprintf("inception-%d", i+1) {
			problems := make([]planner.Problem, len(sizes))
			for j, s := range sizes {
				problems[j] = planner.GEMM(s[0], s[1], s[2])
			}
			return problems, true
		}
	}
	if strings.HasPrefix(name, "zhang-") {
		for _, c := range Zhang() {
			if c.Name == name {
				return c.Problems, true
			}
		}
	}
	return nil, false
}
