package planner

import (
	"math/bits"
	"slices"
)

// marks is a bit for each element of a window of C, and what is left to mark of each
// region.
type marks struct {
	words   []uint64
	touched []int32 // words that are not 0
	cursors []cursor
	heads   []int32 // the first region with its next row in a window, or -1
}

// cursor is how far a region is marked.
type cursor struct {
	at   int   // start of the next row
	rows int   // that are left
	next int32 // region in the same window, or -1
}

const (
	wordBits = 64
	// Windows have from 2^15 to 2^22 elements: their marks, 4 to 512 KB, stay in cache.
	minWindow, maxWindow = 17, 22
	// windowsPerRegion bounds the windows, which cost time and memory even if they are empty.
	windowsPerRegion = 16
)

// mark marks the elements of regions, in order of their starts, window by window, until
// one is marked twice. Windows have 2^shift elements or, if these were too many, more.
func (o *overlaps) mark(cluster []region, extent, shift int) error {
	for extent>>shift > windowsPerRegion*len(cluster) {
		shift++
	}
	m, base, size := &o.marked, cluster[0].start, 1<<shift
	m.reset(cluster, shift, extent>>shift+1)
	for w := range m.heads {
		if err := o.ctx.Err(); err != nil {
			return err
		}
		window := w << shift
		for i := m.heads[w]; i >= 0; {
			r, c := &cluster[i], &m.cursors[i]
			next := c.next
			for c.rows > 0 && c.at < window+size {
				to := c.at + r.cols - window
				if twice := m.set(max(c.at-window, 0), min(to, size)); twice >= 0 {
					return overlapAt(cluster, r, base+window+twice)
				}
				if to > size { // the row goes on
					m.queue(i, w+1)
					break
				}
				c.rows--
				c.at += int(r.ld)
			}
			if c.rows > 0 && c.at >= window+size {
				m.queue(i, c.at>>shift)
			}
			i = next
		}
		m.clear()
	}
	return nil
}

// reset begins with no marks, in windows of 2^shift elements.
func (m *marks) reset(cluster []region, shift, windows int) {
	m.clear() // of a check that ended early
	m.words = slices.Grow(m.words[:0], 1<<shift/wordBits)[:1<<shift/wordBits]
	m.heads = slices.Grow(m.heads[:0], windows)[:windows]
	for w := range m.heads {
		m.heads[w] = -1
	}
	m.cursors = slices.Grow(m.cursors[:0], len(cluster))[:len(cluster)]
	for i := range cluster {
		m.cursors[i] = cursor{at: cluster[i].start - cluster[0].start, rows: cluster[i].rows}
		m.queue(int32(i), m.cursors[i].at>>shift)
	}
}

func (m *marks) queue(region int32, window int) {
	m.cursors[region].next, m.heads[window] = m.heads[window], region
}

// set marks elements [from, to) of the window. It returns one that was marked before,
// or -1.
func (m *marks) set(from, to int) int {
	first, last := from/wordBits, (to-1)/wordBits
	mask := ^uint64(0) << (from % wordBits)
	for w := first; w <= last; w++ {
		if w == last {
			mask &= ^uint64(0) >> (wordBits - 1 - (to-1)%wordBits)
		}
		old := m.words[w]
		if old&mask != 0 {
			return w*wordBits + bits.TrailingZeros64(old&mask)
		}
		if old == 0 {
			m.touched = append(m.touched, int32(w))
		}
		m.words[w] = old | mask
		mask = ^uint64(0)
	}
	return -1
}

func (m *marks) clear() {
	for _, w := range m.touched {
		m.words[w] = 0
	}
	m.touched = m.touched[:0]
}

// overlapAt is the error of two regions that have an element, of which one is known.
func overlapAt(cluster []region, r *region, element int) error {
	at := region{start: element, end: element + 1, rows: 1, cols: 1, ld: MaxDim}
	for i := range cluster {
		if o := &cluster[i]; o != r && o.meets(&at) {
			return overlapError(o, r)
		}
	}
	panic("unreachable: an element is marked by one region alone")
}
