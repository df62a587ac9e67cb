package planner

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/internal/overlap"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// maxSegments bounds a plan whose problems are so large that its arrays would not
// fit in memory: 64 Mi segments take 2.5 GB, and 3 GB encoded. They are 1 TB of C in
// tiles of 64 x 64. On 32-bit targets it is 4 Mi.
const maxSegments = 1 << (18 + bits.UintSize/8)

const (
	// leastAsked: of less memory nobody is asked. It is that of 2000 problems, or of 25,000 tiles.
	leastAsked = 1 << 20

	// bytesOfProblem are those of a problem, without its tiles: its copy, what finds overlaps, and its places in orders.
	bytesOfProblem = overlap.BytesPerRegion + int64(unsafe.Sizeof(Problem{})+2*unsafe.Sizeof(radix.Key{})+
		unsafe.Sizeof(class{})+3*unsafe.Sizeof(uintptr(0)))
	// bytesOfSegment are those of a segment, the end of its worker, and the owner of its tile.
	bytesOfSegment = int64(unsafe.Sizeof(encoding.Segment{}) + 2*unsafe.Sizeof(int32(0)))
	// bytesOfWork are those of a tile, or part, that a custom schedule sees, beside its segment.
	bytesOfWork = int64(unsafe.Sizeof(WorkTile{}) + unsafe.Sizeof(encoding.Segment{}) + 4*unsafe.Sizeof(Part{}) + 2*unsafe.Sizeof(uintptr(0)))
)

// ask fails when a plan may not take so many bytes more.
func (p *builder) ask(bytes int64, of string, n int64) error {
	if p.budget == nil || bytes < leastAsked {
		return nil
	}
	if err := p.budget(bytes); err != nil {
		return fmt.Errorf("plan of %d %s: %w", n, of, err)
	}
	return nil
}

// roomForBatch fails when the plan cannot take so many problems.
func (p *builder) roomForBatch(n int) error {
	if n <= min(cap(p.Batch), p.overlaps.Room()) {
		return nil
	}
	return p.ask(int64(n)*bytesOfProblem, "problems", int64(n))
}

// room makes room for n more segments, or fails when the plan cannot take them.
func (p *builder) room(n int64) error {
	has := int64(len(p.Segments))
	if n > maxSegments-has {
		return invalid.Errorf("the batch has too many tiles: more than %d", maxSegments)
	}
	if has+n <= int64(cap(p.Segments)) {
		return nil
	}
	if err := p.ask((has+n)*bytesOfSegment, "tiles", has+n); err != nil {
		return err
	}
	p.Segments = slices.Grow(p.Segments, int(n))
	return nil
}
