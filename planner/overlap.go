package planner

import "context"

// region is the part of the C buffer that a problem writes: rows of cols elements
// that begin ld apart. Rows that touch each other are one row.
type region struct {
	start, end  int // first element, behind the last one
	rows, cols  int
	ld, problem int32
}

func (r *region) set(start, rows, cols, ld, problem int) {
	r.start, r.end, r.problem = start, start+(rows-1)*ld+cols, int32(problem)
	r.rows, r.cols, r.ld = rows, cols, int32(ld)
	if rows == 1 || cols >= ld {
		r.rows, r.cols, r.ld = 1, r.end-start, MaxDim // of no account: the same for all
	}
}

// overlaps finds two regions that share an element, and keeps the memory that it
// needs for that. Blocks side by side in one matrix are legal, and so is whatever
// else shares no element, so that nothing short of an exact comparison will do. What
// takes less is tried first:
//
//   - Regions whose ranges are disjoint, as in a packed batch, cost a comparison each.
//   - In a matrix whose leading dimension divides those of the regions, each region
//     lies in a rectangle. A sweep over the rectangles finds whether they are disjoint,
//     which with one leading dimension is the answer.
//   - Regions whose rectangles meet are split by the columns that they lie in, and each
//     set is looked at for itself, with its own leading dimensions.
//   - What is left are different leading dimensions that nothing tells apart: mixed.
//
// Each but the last takes O(n) for n regions, because sorting is by digits and the
// sweep finds neighbours in words of bits: 0.1 to 0.2 us a region in all. Mixed takes as much
// where the regions of each leading dimension lie in a few places of their own, and at
// most some 10 ns for each row and each 64 elements of C; or 50 ns a pair, if C is so
// thin that a region has more than 2^26 elements of the buffer.
type overlaps struct {
	ctx     context.Context
	regions []region
	order   sorter
	moved   []region // by arrange
	parts   []rectangle
	lefts   []int32 // indices of the rectangles, in order of their left columns
	ranks   []int32 // of the rectangles in lefts
	active  rankSet
	marked  marks
}

// maxSplits bounds how often a set is split by columns: each time the greatest common
// divisor of its leading dimensions has grown or regions were set aside. Far fewer are
// needed unless a layout was made for it.
const maxSplits = 32

// find returns the error of the first two regions that it finds to overlap, or the
// context's.
func (o *overlaps) find(ctx context.Context) error {
	o.ctx = ctx
	o.arrange(o.regions, byStart)
	return o.ranges(o.regions, 0)
}

func byStart(r *region) int { return r.start }
func byLD(r *region) int    { return int(r.ld) }

// arrange sorts regions by a number, and keeps the order of those where it is the same.
func (o *overlaps) arrange(regions []region, by func(*region) int) {
	sorted := true
	for i := 1; i < len(regions) && sorted; i++ {
		sorted = by(&regions[i-1]) <= by(&regions[i])
	}
	if sorted {
		return
	}
	keys := o.order.reserve(len(regions))
	for i := range regions {
		keys[i] = key{int64(by(&regions[i])), int32(i)}
	}
	o.moved = append(o.moved[:0], regions...)
	for i, k := range o.order.sort(keys) {
		regions[i] = o.moved[k.index]
	}
}

// ranges checks regions in order of their starts. It cuts them where no region
// reaches across.
func (o *overlaps) ranges(regions []region, splits int) error {
	for first := 0; first < len(regions); {
		last, end := first+1, regions[first].end
		for last < len(regions) && regions[last].start < end {
			end = max(end, regions[last].end)
			last++
		}
		if last-first > 1 {
			if err := o.cluster(regions[first:last], splits); err != nil {
				return err
			}
		}
		first = last
	}
	return nil
}

// cluster checks regions whose ranges interleave.
func (o *overlaps) cluster(cluster []region, splits int) error {
	pitch := 0
	for i := range cluster {
		if r := &cluster[i]; r.rows > 1 && int(r.ld) != pitch {
			pitch = gcd(pitch, int(r.ld))
		}
	}
	if pitch == 0 { // rows, the second of which begins within the first
		return overlapError(&cluster[0], &cluster[1])
	}
	x, y := o.sweep(cluster, pitch)
	if x == nil {
		return nil
	}
	if x.meets(y) {
		return overlapError(x, y)
	}
	if splits < maxSplits {
		if first := o.columns(cluster, pitch); first != nil {
			return o.split(cluster, first, splits+1)
		}
	}
	return o.mixed(cluster)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// split checks sets of regions, each from one index of first to the next.
func (o *overlaps) split(cluster []region, first []int, splits int) error {
	for i := range first {
		set := cluster[first[i]:]
		if i+1 < len(first) {
			set = cluster[first[i]:first[i+1]]
		}
		o.arrange(set, byStart)
		if err := o.ranges(set, splits); err != nil {
			return err
		}
	}
	return nil
}

// columns orders a cluster by the columns of a matrix that the regions lie in, and
// returns where sets begin that have no column in common; nil if there is one alone.
func (o *overlaps) columns(cluster []region, pitch int) (first []int) {
	base, reach := cluster[0].start, 0
	left := func(r *region) int { return (r.start - base) % pitch }
	for i := range cluster {
		r := &cluster[i]
		if r.cols >= pitch {
			return nil
		}
		reach = max(reach, left(r)+r.cols)
	}
	o.arrange(cluster, left)
	reach -= pitch // of regions that wrap around the end of a row
	for i := range cluster {
		r := &cluster[i]
		if left(r) >= reach {
			first = append(first, i)
		}
		reach = max(reach, left(r)+r.cols)
	}
	if len(first) < 2 {
		return nil
	}
	// Those before the first gap belong to those behind the last one.
	if by := first[0]; by > 0 {
		o.moved = append(o.moved[:0], cluster[:by]...)
		copy(cluster, cluster[by:])
		copy(cluster[len(cluster)-by:], o.moved)
		for i := range first {
			first[i] -= by
		}
	}
	return first
}

// meets reports whether two regions share an element.
func (r *region) meets(o *region) bool {
	if r.start >= o.end || o.start >= r.end {
		return false
	}
	if r.rows > o.rows {
		r, o = o, r
	}
	if o.rows == 1 {
		return true
	}
	// The last element of row i of r lies last + i*ld behind o's start. Of the rows of o
	// that begin no later, the last one ends last.
	ld, pitch := int(r.ld), int(o.ld)
	last, near := r.start+r.cols-1-o.start, r.cols+o.cols-1 // it meets r's row if it begins so near
	from, to := 0, int(min(int64(r.rows), ceilDiv(int64(o.rows*pitch-last), int64(ld))))
	if last < 0 {
		from = int(ceilDiv(int64(-last), int64(ld)))
	}
	if from < to {
		first := firstBelow(int64(ld), int64(last+from*ld), int64(pitch), int64(near))
		if 0 <= first && first < int64(to-from) {
			return true
		}
	}
	to = max(to, 0) // this row ends behind the last of o; those after it begin there too
	return to < r.rows && r.start+to*ld < o.end
}

// firstBelow returns the least x >= 0 for which (b + a*x) mod m < below, or -1.
// All arguments are positive or 0, m and below positive. Products need 64 bits.
func firstBelow(a, b, m, below int64) int64 {
	b %= m
	if b < below {
		return 0
	}
	return firstWithin(a%m, m, m-b, m-b+below-1)
}

// firstWithin returns the least x >= 0 for which low <= a*x mod m <= high, or -1, by
// the steps of Euclid's algorithm: a < m, 0 < low <= high < m.
func firstWithin(a, m, low, high int64) int64 {
	if a == 0 {
		return -1
	}
	if x := ceilDiv(low, a); a*x <= high {
		return x
	}
	// a*x - m*y is within for the least y that brings m*y mod a into the mirrored range.
	y := firstWithin(m%a, a, a-1-(high-1)%a, a-1-(low-1)%a)
	if y < 0 {
		return -1
	}
	return ceilDiv(low+m*y, a)
}

func overlapError(x, y *region) error {
	i, j := int(x.problem), int(y.problem)
	return problemError(max(i, j), "C", "overlaps C of problem %d", min(i, j))
}
