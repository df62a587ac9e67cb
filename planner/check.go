package planner

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Check reports the first mistake in the batch as a *ProblemError: sizes that
// are negative or above MaxDim, a leading dimension below the row length,
// offsets that overflow, an operand outside its buffer, or two problems whose C
// regions share an element. The buffers have lenA, lenB and lenC elements.
// Operands that are not read (see Problem) may lie anywhere.
func (b Batch) Check(lenA, lenB, lenC int) error {
	return b.check(lenA, lenB, lenC, new([]region))
}

// check is Check with scratch memory for the regions of C.
func (b Batch) check(lenA, lenB, lenC int, scratch *[]region) error {
	regions := (*scratch)[:0]
	for i := range b {
		p := &b[i]
		if err := checkSizes(i, p); err != nil {
			return err
		}
		written := p.M > 0 && p.N > 0
		read := p.Reads()
		rowsA, colsA := p.ShapeA()
		rowsB, colsB := p.ShapeB()
		if err := checkMatrix(i, "A", "lda", p.A, rowsA, colsA, lenA, read); err != nil {
			return err
		}
		if err := checkMatrix(i, "B", "ldb", p.B, rowsB, colsB, lenB, read); err != nil {
			return err
		}
		if err := checkMatrix(i, "C", "ldc", p.C, p.M, p.N, lenC, written); err != nil {
			return err
		}
		if written {
			regions = append(regions, region{start: p.C.Offset, end: p.C.end(p.M, p.N), ld: p.C.LD, rows: p.M, cols: p.N, problem: i})
		}
	}
	*scratch = regions
	return checkOverlap(regions)
}

func checkSizes(i int, p *Problem) error {
	for _, d := range [...]struct {
		arg  string
		size int
	}{{"M", p.M}, {"N", p.N}, {"K", p.K}} {
		if d.size < 0 {
			return problemError(i, d.arg, "%d is negative", d.size)
		}
		if d.size > MaxDim {
			return problemError(i, d.arg, "%d is above the limit %d", d.size, MaxDim)
		}
	}
	return nil
}

func checkMatrix(i int, arg, ldArg string, m Matrix, rows, cols, length int, used bool) error {
	if m.LD < cols {
		return problemError(i, ldArg, "%d < row length %d", m.LD, cols)
	}
	if m.LD > MaxDim {
		return problemError(i, ldArg, "%d is above the limit %d", m.LD, MaxDim)
	}
	if m.Offset < 0 {
		return problemError(i, arg, "offset %d is negative", m.Offset)
	}
	if !used {
		return nil
	}
	end, ok := addMul(m.Offset+cols, rows-1, m.LD)
	if !ok || m.Offset > math.MaxInt-cols {
		return problemError(i, arg, "does not fit: its last offset overflows")
	}
	if end > length {
		return problemError(i, arg, "needs elements [%d, %d) of a buffer of %d", m.Offset, end, length)
	}
	return nil
}

// addMul returns off + a*b for arguments >= 0, and whether it fits in an int.
func addMul(off, a, b int) (int, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt {
		return 0, false
	}
	sum := off + int(lo)
	return sum, sum >= 0
}

// region is the part of the C buffer that a problem writes.
type region struct {
	start, end     int // first element, behind the last one
	ld, rows, cols int
	problem        int
}

// checkOverlap finds two regions that share an element. Regions whose ranges
// are disjoint, as in a packed batch, cost one comparison each. Ranges that
// interleave are compared exactly: blocks side by side in one matrix are legal.
func checkOverlap(regions []region) error {
	byStart := func(x, y region) int { return cmp.Compare(x.start, y.start) }
	if !slices.IsSortedFunc(regions, byStart) {
		slices.SortFunc(regions, byStart)
	}
	for first := 0; first < len(regions); {
		last, end := first+1, regions[first].end
		for last < len(regions) && regions[last].start < end {
			end = max(end, regions[last].end)
			last++
		}
		if last-first > 1 {
			if err := checkCluster(regions[first:last]); err != nil {
				return err
			}
		}
		first = last
	}
	return nil
}

// checkCluster checks regions whose ranges interleave.
func checkCluster(cluster []region) error {
	ld := 0
	for i := range cluster {
		ld = max(ld, cluster[i].ld)
	}
	for i := range cluster {
		if r := &cluster[i]; r.ld != ld && r.rows > 1 {
			return checkPairs(cluster)
		}
	}
	return checkBlocks(cluster, ld)
}

// checkPairs compares every pair of regions row by row: O(n^2 * rows), for
// clusters with several leading dimensions.
func checkPairs(cluster []region) error {
	for i := range cluster {
		for j := i + 1; j < len(cluster) && cluster[j].start < cluster[i].end; j++ {
			few, many := &cluster[i], &cluster[j]
			if few.rows > many.rows {
				few, many = many, few
			}
			for row := range few.rows {
				if many.touches(few.start+row*few.ld, few.cols) {
					return overlapError(cluster[i].problem, cluster[j].problem)
				}
			}
		}
	}
	return nil
}

// touches reports whether a row of r shares an element with [start, start+n).
func (r *region) touches(start, n int) bool {
	if start+n <= r.start {
		return false
	}
	// Of the rows that start before the interval's end, the last one ends last.
	row := min((start+n-1-r.start)/r.ld, r.rows-1)
	return r.start+row*r.ld+r.cols > start
}

// block is a rectangle of a matrix with the common leading dimension.
type block struct{ top, bottom, left, right, problem int }

// checkBlocks finds two rectangles of one matrix that intersect, by a sweep
// over rows: active rectangles are disjoint in columns, so that a new one only
// needs to be compared with its neighbours.
func checkBlocks(cluster []region, ld int) error {
	var blocks []block
	for i := range cluster {
		r := &cluster[i]
		at := r.start - cluster[0].start
		top, left := at/ld, at%ld
		right := min(left+r.cols, ld)
		blocks = append(blocks, block{top, top + r.rows, left, right, r.problem})
		if wrapped := left + r.cols - ld; wrapped > 0 {
			blocks = append(blocks, block{top + 1, top + 1 + r.rows, 0, wrapped, r.problem})
		}
	}
	slices.SortFunc(blocks, func(x, y block) int { return cmp.Compare(x.top, y.top) })
	var active []block // sorted by left, disjoint
	for _, n := range blocks {
		at, _ := slices.BinarySearchFunc(active, n.left, func(a block, left int) int { return cmp.Compare(a.left, left) })
		// Neighbours that ended above this row make room; they are dropped here,
		// where they are met, and not when they end.
		for at < len(active) && active[at].left < n.right {
			if active[at].bottom > n.top {
				return overlapError(active[at].problem, n.problem)
			}
			active = slices.Delete(active, at, at+1)
		}
		for at > 0 && active[at-1].right > n.left {
			if active[at-1].bottom > n.top {
				return overlapError(active[at-1].problem, n.problem)
			}
			active = slices.Delete(active, at-1, at)
			at--
		}
		active = slices.Insert(active, at, n)
	}
	return nil
}

func overlapError(i, j int) error {
	return problemError(max(i, j), "C", "overlaps C of problem %d", min(i, j))
}
