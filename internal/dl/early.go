//go:build cgo && linux && (amd64 || arm64)

package dl

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// early reports whether a launch of a plan may load its items before the previous launch has ended, and let
// the next one begin before it ends itself (PDL), if the GPU can (native/kernels/load.cuh). Its items must
// exist before that, as those from the host do.
//
// Thread groups of the next launch take the places that are free by then. If several groups run on a unit,
// and there are more groups than units but fewer than fit, they crowd some units while others have room.
// Plans of one large product among small ones then took up to 1.4 times as long. PDL gains under a
// microsecond, so short plans gain more than they lose. Of 3,991 plans in fp32 (one launch of one tile;
// H100), this choice takes 0.4 percent longer than the better of both, at most 22.
func early(p *planner.Plan, l *encoding.Launch) bool {
	switch {
	case p.Takes().Sizes || len(p.Records) > 0 || l.Dynamic &&
		l.Tile.Unit != tile.WGMMA: // launches that make items, or with a counter
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
