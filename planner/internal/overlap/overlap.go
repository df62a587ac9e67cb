// Package overlap finds matrices in one buffer that share an element.
package overlap

import (
	"slices"
	"unsafe"

	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// region is a matrix: rows of cols elements that start ld apart. Rows that touch are one row with ld 0,
// which fits into a matrix of any leading dimension.
type region struct {
	start, end  int // first element, and the one after the last
	cols        int
	ld, problem int32
}

// Finder finds overlaps, and keeps its memory. The zero value is ready.
type Finder struct {
	regions, spare []region
	sorter         radix.Sorter
	columns        []int32 // start columns of the regions of a cluster
	order          []int32 // regions by start column
	ranks          []int32 // place of each region in order
	active         ranks
}

// BytesPerRegion is the most memory that a region takes.
const BytesPerRegion = int64(2*unsafe.Sizeof(region{}) + 2*unsafe.Sizeof(radix.Key{}) +
	3*unsafe.Sizeof(int32(0)))

// Reset forgets all regions, and makes room for n.
func (f *Finder) Reset(n int) { f.regions = slices.Grow(f.regions[:0], n) }

// Room returns the number of regions that need no more memory.
func (f *Finder) Room() int { return cap(f.regions) }

// Add adds a matrix of a problem. start is at least 0, the other numbers at least 1, and cols <= ld.
func (f *Finder) Add(problem, start, rows, cols, ld int) {
	r := region{start: start, end: start + (rows-1)*ld + cols, cols: cols, ld: int32(ld),
		problem: int32(problem)}
	if rows == 1 || cols == ld {
		r.cols, r.ld = r.end-r.start, 0
	}
	f.regions = append(f.regions, r)
}

// Conflict is two problems with a common element, or maybe one. The first comes first in the batch.
type Conflict struct {
	First, Second int
	// Leading dimensions of the two, if they differ. It is then not known whether they share an element.
	FirstLD, SecondLD int
}

// Find returns two matrices that conflict, or nil. The rule:
//   - Matrices whose ranges, from the first element to the last, are disjoint do not overlap.
//   - Matrices of one leading dimension, and single rows of any, are compared exactly wherever they lie.
//   - Matrices of several rows and different leading dimensions whose ranges meet conflict. They may have
//     no element in common, but no short rule tells that.
//
// Find visits the regions in order of their first elements. A region that starts within the first row of
// another overlaps it, and a single row is compared with the regions after it. All other regions that start
// within the range of another form a cluster of one leading dimension: see sweep. It takes O(n log n) for n
// regions.
func (f *Finder) Find() *Conflict {
	if f.apart() {
		return nil
	}
	f.sort()
	r := f.regions
	for first, last := 0, 0; first < len(r); first = last {
		far := first // region of the cluster that ends last; with several rows if another follows
		for last = first + 1; last < len(r) && r[last].start < r[far].end; last++ {
			before, n := &r[last-1], &r[last]
			switch {
			case n.start < before.start+before.cols:
				return conflict(before, n)
			case n.ld != 0 && n.ld != r[far].ld:
				c := conflict(&r[far], n)
				c.FirstLD, c.SecondLD = int(r[far].ld), int(n.ld)
				if c.First == int(n.problem) {
					c.FirstLD, c.SecondLD = c.SecondLD, c.FirstLD
				}
				return c
			case n.end > r[far].end:
				far = last
			}
		}
		if last-first > 1 {
			if x, y := f.sweep(r[first:last], int(r[first].ld)); x != nil {
				return conflict(x, y)
			}
		}
	}
	return nil
}

func conflict(x, y *region) *Conflict {
	return &Conflict{First: int(min(x.problem, y.problem)), Second: int(max(x.problem, y.problem))}
}

// apart reports whether each region ends before the next one starts, as in a packed batch.
func (f *Finder) apart() bool {
	for i := 1; i < len(f.regions); i++ {
		if f.regions[i-1].end > f.regions[i].start {
			return false
		}
	}
	return true
}

// sort orders regions by their first elements.
func (f *Finder) sort() {
	sorted := true
	for i := 1; i < len(f.regions) && sorted; i++ {
		sorted = f.regions[i-1].start <= f.regions[i].start
	}
	if sorted {
		return
	}
	keys := f.sorter.Reserve(len(f.regions))
	for i := range f.regions {
		keys[i] = radix.Key{By: int64(f.regions[i].start), Index: int32(i)}
	}
	f.spare = append(f.spare[:0], f.regions...)
	for i, k := range f.sorter.Sort(keys) {
		f.regions[i] = f.spare[k.Index]
	}
}

// sweep finds two overlapping regions in a cluster of one leading dimension, sorted by first element.
//
// A region occupies its columns, modulo ld, until it ends. The regions that have not ended when another
// starts occupy separate columns on the circle, unless two overlap. So the new region is only compared with
// its neighbours there: the next one that starts after its first column, or in it, must start after its
// last, and the next one that starts before must end before it. Both then hold for all later rows.
func (f *Finder) sweep(cluster []region, ld int) (x, y *region) {
	f.rank(cluster, ld)
	for i := range cluster {
		n, rank := &cluster[i], int(f.ranks[i])
		after := f.neighbour(cluster, rank, n, (*ranks).after)
		if after >= 0 && f.between(i, after, ld) < n.cols {
			return &cluster[after], n
		}
		before := f.neighbour(cluster, rank, n, (*ranks).before)
		if before >= 0 && f.between(before, i, ld) < cluster[before].cols {
			return &cluster[before], n
		}
		f.active.add(rank)
	}
	return nil, nil
}

// between returns how many columns after region i region j starts, on the circle.
func (f *Finder) between(i, j, ld int) int {
	columns := int(f.columns[j] - f.columns[i])
	if columns < 0 {
		columns += ld
	}
	return columns
}

// rank sets the places of regions in order of their start columns.
func (f *Finder) rank(cluster []region, ld int) {
	n := len(cluster)
	for _, list := range []*[]int32{&f.columns, &f.order, &f.ranks} {
		*list = slices.Grow((*list)[:0], n)[:n]
	}
	keys := f.sorter.Reserve(n)
	for i := range cluster {
		column := (cluster[i].start - cluster[0].start) % ld
		f.columns[i], keys[i] = int32(column), radix.Key{By: int64(column), Index: int32(i)}
	}
	for rank, k := range f.sorter.Sort(keys) {
		f.order[rank], f.ranks[k.Index] = k.Index, int32(rank)
	}
	f.active.reset(n)
}

// neighbour returns the next region in a direction that has not ended when n starts, or -1. It drops the
// regions that have ended, each of them once.
func (f *Finder) neighbour(cluster []region, rank int, n *region, next func(*ranks, int) int) int {
	for {
		at := next(&f.active, rank)
		if at < 0 {
			return -1
		}
		if x := int(f.order[at]); cluster[x].end > n.start {
			return x
		}
		f.active.remove(at)
	}
}
