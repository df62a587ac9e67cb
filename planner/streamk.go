package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// dealStreamK gives every worker an even share of all K steps, regardless of tile boundaries (Osama et al.
// 2023). A worker may end one tile, process several whole tiles and begin another one. Start and store of a
// tile count as steps too: otherwise a share of many tiles with one or two steps takes several times as long
// as others. If the partials have no room, tiles stay whole.
func dealStreamK(p *builder, g *group) error {
	if !p.model.streamFits(g.id, g.load) {
		return dealDataParallel(p, g)
	}
	if err := p.room(int64(g.load.tiles) + p.model.streamWorkers(g.id, g.load)); err != nil {
		return err
	}
	slots := p.slots(g)
	s := p.model.streamShares(g.id, g.load)
	s.begin()
	err := p.forTiles(g, func(part encoding.Segment, steps int) {
		depth, first := int(part.K1), len(p.Segments)
		for k := 0; ; {
			to := s.take(k, steps)
			if to > k {
				part.K0, part.K1 = int32(k*g.Tile.TK), int32(min(to*g.Tile.TK, depth))
				p.Segments = append(p.Segments, part)
			}
			if to < steps || s.left == 0 {
				p.endWorker()
				s.begin()
			}
			if k = to; k == steps {
				break
			}
		}
		p.sumParts(first, &slots)
	})
	p.Workspace = max(p.Workspace, slots.end())
	return err
}

// streamShares deals the steps of a group to workers. Each worker has as much as the next ones, as closely
// as the least length of partials allows.
type streamShares struct {
	start, least int   // see streamUnits
	left         int64 // steps to deal, and a start for each tile; 64 bits, because of their products
	workers      int64 // that have no share yet
	room         int   // left in the worker's share, in steps
	empty        bool  // the worker has nothing yet
}

func (m *model) streamShares(id tileID, l load) streamShares {
	start, least := m.streamUnits(id)
	return streamShares{start: start, least: least, left: int64(l.steps) + int64(start)*int64(l.tiles),
		workers: m.streamWorkers(id, l)}
}

// begin starts the share of the next worker. It assumes that each later worker gets a partial of a tile that
// another began.
func (s *streamShares) begin() {
	if s.workers > 0 { // otherwise all is dealt
		s.room = int((s.left + int64(s.start)*(s.workers-1)) / s.workers)
		s.workers--
	}
	s.empty = true
}

// take deals the worker steps of a tile with that many steps, from step k on, and returns where they end.
func (s *streamShares) take(k, steps int) (to int) {
	to = k + s.room - s.start
	if s.empty {
		to = max(to, k+s.least)
	}
	switch {
	case s.workers == 0 || steps-to < s.least:
		to = steps
	case to-k < s.least:
		return k
	}
	s.room -= s.start + to - k
	s.left -= int64(to - k)
	if k == 0 {
		s.left -= int64(s.start)
	}
	s.empty = false
	return to
}

// streamUnits returns how many K steps the start and the store of a tile cost, and the least steps of a
// partial in dealStreamK. If workers leave and several run on a compute unit, shares are even to the step:
// with units they took 1.05 to 1.17 times as long (tensor-64x64, H200). Devices that limit loops need this
// too.
func (m *model) streamUnits(id tileID) (start, least int) {
	t := &m.tiles[id]
	if t.shape.Unit != tile.WGMMA {
		return 0, 1
	}
	return int(math.Round(t.worker / t.busy)), minPartialSteps
}

// streamFits reports whether the partials of streamWorkers, two for each worker, have room. If a loop limit
// asks for many workers, they may not.
func (m *model) streamFits(id tileID, l load) bool {
	workers := m.streamWorkers(id, l)
	return workers == 1 || 2*workers <= int64(m.slotLimit(id))
}

// streamWorkers returns the number of workers that share the steps of a group: one for every place on the
// device, unless shares become too short, too long for the device's loop limit, or too many to have room for
// their partials.
func (m *model) streamWorkers(id tileID, l load) int64 {
	total := int64(l.steps)
	workers := max(min(int64(min(m.tiles[id].resident, m.slotLimit(id)/2)), ceilDiv(total, minPartialSteps)),
		1)
	if m.trips.most > 0 {
		workers = max(workers, ceilDiv(total, int64(m.trips.steps(m.tiles[id].shape))))
	}
	return workers
}
