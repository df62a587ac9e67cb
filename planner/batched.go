package planner

import "github.com/batchgemm/batchgemm/internal/encoding"

// dealBatched gives a worker consecutive tiles until it has its share of K steps. Many tiny tiles so make
// fewer and fuller workers (the batching of Li et al. 2019).
func dealBatched(p *builder, g *group) error {
	share := p.model.batchSteps(g.id, g.load)
	var held int64
	err := p.forTiles(g, func(s encoding.Segment, steps int) {
		if held > 0 && held+int64(steps) > share {
			p.endWorker()
			held = 0
		}
		p.Segments = append(p.Segments, s)
		held += int64(steps)
	})
	p.endWorker()
	return err
}

// batchSteps returns the share of a worker under dealBatched, in K steps: the steps of the longest tile, or
// more if that still leaves two workers for every place on the device.
func (m *model) batchSteps(id tileID, l load) int64 {
	share := max(int64(l.longest), ceilDiv(int64(l.steps), int64(2*m.tiles[id].resident)))
	if m.trips.most > 0 {
		share = min(share, int64(m.trips.steps(m.tiles[id].shape)))
	}
	return share
}
