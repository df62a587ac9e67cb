package hostgemm

import (
	"fmt"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
)

// packedBytes is the memory of a problem while its batch is packed, including what is kept.
const packedBytes = 4*unsafe.Sizeof(planner.Problem{}) +
	operands*(2*unsafe.Sizeof(matrix{})+unsafe.Sizeof(move{}))

// roomToPack fails if there is no memory to pack a batch of many problems.
func roomToPack(batch planner.Batch) error {
	const few = 1000
	if len(batch) <= few {
		return nil
	}
	if err := hostmem.CheckHalf(int64(len(batch)) * int64(packedBytes)); err != nil {
		return fmt.Errorf("memory to pack %d problems: %w", len(batch), err)
	}
	return nil
}

// room fails, before anything is computed, if memory has no room for what a call will take of the host:
// staged results, buffers of devices in the host, and pages of C that do not exist yet. The system provides
// those of fresh memory when the results are copied.
func (s *session) room(e *entry, t *task) error {
	const little = 4 << 20
	if e.results < little {
		return nil
	}
	return hostmem.CheckTouched(s.takes(e, t))
}

// takes returns what room asks for: bytes of new memory, and of pages of C.
func (s *session) takes(e *entry, t *task) (bytes, touched int64) {
	took := make([]int, 0, maxLanes*operands+1)
	direct := false
	for i, parts := range e.parts {
		if _, is := s.hosts[i].device.(backend.InHost); is {
			took = append(took, s.hosts[i].toAllocate(parts, s.lanes(), t.used())...)
			direct = len(e.parts) == 1 && len(parts) == 1
		}
	}
	if !direct {
		took = append(took, staged.more(e.results))
	}
	return hostmem.Size(took...), hostmem.Untouched(t.C[:e.extents.C], e.pages())
}

// toAllocate returns the most that the lanes of a device will allocate for buffers.
func (h *Host) toAllocate(parts []*part, lanes int, used [operands]bool) (lens []int) {
	for l := range min(lanes, len(parts)) {
		for i := range used {
			most := 0
			for _, p := range parts {
				most = max(most, p.sizes[i])
			}
			if old := h.lanes[l].buffers[i]; used[i] && (old == nil || old.Len() < most) {
				lens = append(lens, roomy(most))
			}
		}
	}
	return lens
}

// pages returns the most bytes of pages on which the results lie in C.
func (e *entry) pages() (bytes int64) {
	const page = 4096
	for _, own := range e.parts {
		for _, p := range own {
			for i := range p.results {
				m := p.results[i].stretches()
				bytes += int64(m.rows) * (hostmem.Size(m.cols)/page + 2) * page
			}
		}
	}
	return bytes
}
