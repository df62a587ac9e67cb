package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// dealStreamK gives every worker an even share of all K steps, whatever tiles they belong to (Osama et al.
// 2023). A worker may end one tile, process several whole ones and begin another. Whatever it has of a tile
// counts for the start and the store too: else a share of many tiles that have a step or two takes several
// times as long as others. Where their partial tiles have no room, tiles stay whole.
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

// streamShares deals the steps of a group to workers, each of which has as much as those to come, as near as
// parts allow that have not too few.
type streamShares struct {
	start, least int   // as of streamUnits
	left         int64 // steps to deal, and a start for each tile; as products of these it may need 64 bits
	workers      int64 // that have no share yet
	room         int   // of the worker's share, in steps
	empty        bool  // it has nothing
}

func (m *model) streamShares(id tileID, l load) streamShares {
	start, least := m.streamUnits(id)
	return streamShares{start: start, least: least, left: int64(l.steps) + int64(start)*int64(l.tiles),
		workers: m.streamWorkers(id, l)}
}

// begin is for the next worker. Each after it is reckoned to have a part of a tile that another began.
func (s *streamShares) begin() {
	if s.workers > 0 { // else all is dealt
		s.room = int((s.left + int64(s.start)*(s.workers-1)) / s.workers)
		s.workers--
	}
	s.empty = true
}

// take deals the worker what it has of a tile of so many steps, of which k are dealt, and returns where that
// ends.
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

// streamUnits is how many K steps the start and the store of a tile take as long as, and the least steps of a
// part of dealStreamK. Of workers that leave, of which several run on a compute unit, shares are even to the
// step: with such units they took 1.05 to 1.17 times as long (tensor-64x64, H200), and loops need it that a
// device limits.
func (m *model) streamUnits(id tileID) (start, least int) {
	t := &m.tiles[id]
	if t.shape.Unit != tile.WGMMA {
		return 0, 1
	}
	return int(math.Round(t.worker / t.busy)), minPartialSteps
}

// streamFits reports whether the partial tiles of streamWorkers, two each, have room: those that a loop limit
// asks for may have none.
func (m *model) streamFits(id tileID, l load) bool {
	workers := m.streamWorkers(id, l)
	return workers == 1 || 2*workers <= int64(m.slotLimit(id))
}

// streamWorkers is the number of workers that share the steps of a group: one
// for every place on the device, unless their shares get too short, or too long
// for the device's loop limit, or their partial tiles too many.
func (m *model) streamWorkers(id tileID, l load) int64 {
	d, total := m.device, int64(l.steps)
	workers := max(min(int64(min(m.tiles[id].resident, m.slotLimit(id)/2)), ceilDiv(total, minPartialSteps)),
		1)
	if d.MaxTrips > 0 {
		workers = max(workers, ceilDiv(total, int64(d.tripSteps(m.tiles[id].shape))))
	}
	return workers
}
