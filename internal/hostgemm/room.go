package hostgemm

import (
	"fmt"
	"unsafe"

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
// staged results, and pages of C that do not exist yet. The system provides those of fresh memory when it is
// written.
func (s *session) room(e *entry, t *task) error {
	const little = 4 << 20
	if e.results < little {
		return nil
	}
	return hostmem.CheckTouched(s.takes(e, t))
}

// takes returns what room asks for: bytes of new memory, and of pages of C.
func (s *session) takes(e *entry, t *task) (bytes, touched int64) {
	if !e.inPlace {
		bytes = hostmem.Size(staged.more(e.results))
	}
	of := &t.options.TypeC
	pages := e.pages()
	all := of.Size(e.extents.C) / 4
	if hostmem.Size(all) <= 2*pages {
		return bytes, hostmem.Untouched(t.C[:all], pages)
	}
	for c := range written(e.batch, &e.options.Epilogue) { // they are far apart
		touched += hostmem.Untouched(t.C[of.Size(c.offset)/4:of.Size(c.end())/4], pages-touched)
	}
	return bytes, touched
}

// pages returns the most bytes of pages on which the results lie in C.
func (e *entry) pages() (bytes int64) {
	const page = 4096
	for c := range written(e.batch, &e.options.Epilogue) {
		m := c.stretches()
		bytes += int64(m.rows) * (int64(e.options.TypeC.Size(m.cols))/page + 2) * page
	}
	return bytes
}
