package planner

import (
	"math"
	"slices"
)

// mixed checks regions of several leading dimensions. Those of one are leaves of a tree
// of hulls, and trees are compared from their roots down as far as hulls meet. Should
// that take longer than marking every row does, rows are marked instead.
func (o *overlaps) mixed(cluster []region) error {
	o.arrange(cluster, byStart)
	words, extent := 0.0, 0
	for i := range cluster {
		r := &cluster[i]
		words += float64(r.rows) * float64(1+r.cols/wordBits)
		extent = max(extent, r.end-cluster[0].start)
	}
	budget := math.MaxInt
	if extent>>maxWindow <= windowsPerRegion*len(cluster) {
		budget = int(min(words/wordsPerTest, math.MaxInt32))
	}
	done, err := o.compareSets(slices.Clone(cluster), budget)
	if err != nil || done {
		return err
	}
	return o.mark(cluster, extent, minWindow)
}

// wordsPerTest is how many words of marks are set in the time that it takes to see
// whether two hulls meet: some 6 ns and 50 ns.
const wordsPerTest = 8

// sameLD yields the regions of each leading dimension.
func sameLD(regions []region) func(yield func([]region) bool) {
	return func(yield func([]region) bool) {
		for first := 0; first < len(regions); {
			last := first + 1
			for last < len(regions) && regions[last].ld == regions[first].ld {
				last++
			}
			if !yield(regions[first:last]) {
				return
			}
			first = last
		}
	}
}

// hulls is a tree over regions of one leading dimension. Nodes i > 0 have the children
// 2i and 2i+1; from node len(regions) on there are the regions, as hulls of themselves.
type hulls struct {
	regions []region
	nodes   []hull
	base    int // element where row 0 of the matrix begins, from that of all regions on
}

// hull is a rectangle of a matrix. right may be beyond the end of a row: the rest is at
// the begin of the next one.
type hull struct{ top, bottom, left, right int }

// compareSets takes regions in order of their starts. It compares those of different
// leading dimensions by trees, and those of each by a sweep. It gives up, and is not
// done, behind so many tests.
func (o *overlaps) compareSets(regions []region, budget int) (done bool, err error) {
	base := regions[0].start
	o.arrange(regions, byLD)
	var trees []hulls
	for set := range sameLD(regions) {
		if budget < len(trees) {
			return false, nil
		}
		trees = append(trees, o.tree(set, base))
	}
	for i := range trees {
		for j := range i {
			if err := o.compare(&trees[i], &trees[j], 1, 1, &budget); err != nil || budget < 0 {
				return false, err
			}
		}
	}
	for i := range trees {
		o.arrange(trees[i].regions, byStart)
		if err := o.ranges(trees[i].regions, maxSplits); err != nil {
			return false, err
		}
	}
	return true, nil
}

// tree makes the tree of a set. It puts regions beside each other that have columns in
// common.
func (o *overlaps) tree(set []region, base int) hulls {
	ld, n, first := int(set[0].ld), len(set), set[0].start
	t := hulls{set, make([]hull, 2*n), first - base}
	o.arrange(set, func(r *region) int { return (r.start - first) % ld })
	for i := range set {
		r := &set[i]
		top := (r.start - first) / ld
		left := r.start - first - top*ld
		t.nodes[n+i] = hull{top, top + r.rows, left, left + r.cols}
	}
	for i := n - 1; i > 0; i-- {
		x, y := &t.nodes[2*i], &t.nodes[2*i+1]
		t.nodes[i] = hull{min(x.top, y.top), max(x.bottom, y.bottom), min(x.left, y.left), max(x.right, y.right)}
	}
	return t
}

// region is what a node covers.
func (t *hulls) region(node int) (r region) {
	h, ld := &t.nodes[node], int(t.regions[0].ld)
	r.set(t.base+h.top*ld+h.left, h.bottom-h.top, h.right-h.left, ld, 0)
	return r
}

// compare finds two regions that overlap below two nodes, and takes one from the budget
// for each test.
func (o *overlaps) compare(t, u *hulls, i, j int, budget *int) error {
	if *budget--; *budget < 0 {
		return nil
	}
	if *budget%1024 == 0 {
		if err := o.ctx.Err(); err != nil {
			return err
		}
	}
	x, y := t.region(i), u.region(j)
	if !x.meets(&y) {
		return nil
	}
	leafT, leafU := i-len(t.regions), j-len(u.regions)
	if leafT >= 0 && leafU >= 0 {
		return overlapError(&t.regions[leafT], &u.regions[leafU])
	}
	if leafT >= 0 || leafU < 0 && y.rows*y.cols > x.rows*x.cols {
		t, u, i, j = u, t, j, i
	}
	if err := o.compare(t, u, 2*i, j, budget); err != nil {
		return err
	}
	return o.compare(t, u, 2*i+1, j, budget)
}
