package hostgemm

import (
	"cmp"
	"slices"
)

// shares distributes problems to devices: the longest problem first, each to the device that then ends first
// (Graham's rule; on equal devices the last one to end is within 4/3 of the optimum). costs[d][i] are the
// microseconds of problem i on device d. It returns the problems of each device in ascending order.
func shares(costs [][]float64) [][]int {
	all := make([][]int, len(costs))
	if len(costs) == 0 {
		return all
	}
	order := make([]int, len(costs[0]))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(costs[0][j], costs[0][i]) })
	loads := make([]float64, len(costs))
	for _, i := range order {
		best := 0
		for d := range costs {
			if loads[d]+costs[d][i] < loads[best]+costs[best][i] {
				best = d
			}
		}
		loads[best] += costs[best][i]
		all[best] = append(all[best], i)
	}
	for _, s := range all {
		slices.Sort(s)
	}
	return all
}
