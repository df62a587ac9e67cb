//go:build cgo && linux && (amd64 || arm64)

package dl

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// early reports whether a launch of a plan may load its items before the launch in front of it has ended,
// and let the next one begin before it ends, where the GPU can (native/kernels/launch.cuh). Items must have
// been there before, as those are that the host makes.
//
// Thread groups of the next launch take the places that are free by then, and crowd some units while others
// have room, where several groups run on a unit, and there are more than units and fewer than fit: plans of
// one large product among small ones then took up to 1.4 times as long. What is gained is under a
// microsecond, so that short plans gain more than they lose. Of 3,991 plans in fp32 (one launch of one tile;
// H100) those that are early here, and the others that are not, take 0.4 percent longer than the better of
// the two, at most 22.
func early(p *planner.Plan, l *encoding.Launch) bool {
	switch {
	case p.TakesSizes() || len(p.Records) > 0 || l.Dynamic &&
		l.Tile.Unit != tile.WGMMA: // makers, or a counter
		return false
	case l.Fixup:
		return true
	}
	k := p.Device.Kernel(l.Tile)
	if k == nil {
		return false
	}
	const smallTile, shortPlan = 512, 5 // elements, microseconds
	groups, room := l.Count*max(int(l.Cluster), 1),
		p.Device.Resident(k.Tile.Threads, k.Resources).Groups*p.Device.ComputeUnits
	return groups <= p.Device.ComputeUnits || groups >= room || l.Tile.TM*l.Tile.TN <= smallTile ||
		p.Cost < shortPlan
}
