package planner

import "github.com/batchgemm/batchgemm/planner/encoding"

// Early reports whether a launch of the plan may load its items before the launch in front of it has ended, and let the next one
// begin before it ends, where the GPU can (native/launch.cuh). Items must have been there before, as those are that the host
// makes.
//
// Thread groups of the next launch take the places that are free by then, and crowd some units while others have room, where one or
// two groups of large tiles run on a unit: launches then took up to 1.11 of the time. The bounds are from 144 batches of the sweep in fp32
// and bf16 on an H100, of which those that they let be early took 0.86 to 1.02, but four 1.04 to 1.11.
func (p *Plan) Early(l *encoding.Launch) bool {
	switch {
	case p.TakesSizes() || len(p.Records) > 0 || l.TableMark() != 0: // makers, or a counter
		return false
	case l.Fixup:
		return true
	}
	k := p.Device.Kernel(l.Tile)
	if k == nil {
		return false
	}
	groups, units, elements := l.Count*max(int(l.Cluster), 1), p.Device.ComputeUnits, l.Tile.TM*l.Tile.TN
	return groups <= units || groups >= p.Device.resident(k) || 4*groups >= 9*units || elements <= 512 || elements <= 1024 && 3*groups <= 4*units
}
