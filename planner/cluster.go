package planner

import "math"

// maxCluster is the largest cluster that pays: on an H200, clusters of 8 took longer than those of 4 for each
// of 20 batches, because few fit beside each other. Of clusters of four an H100 with room for 264 thread
// groups runs 62 at once, since one lies within a part of the GPU whose units are no multiple of four; with
// 63 to 66 a launch takes 1.2 to 1.5 times as long as predicted.
const (
	maxCluster  = 4
	clustersFit = 0.94
)

// clusterSize is the size of the clusters that computes a load soonest: none for
// tiles without kernels for clusters. All clusters run at once, since those that
// had to wait would make two rounds of what takes one.
func (m *model) clusterSize(id tileID, l load) (size int) {
	size = 1
	if !m.tiles[id].clusters {
		return size
	}
	best, room := math.Inf(1), float64(m.tiles[id].resident)
	for c := 2; c <= maxCluster; c *= 2 {
		if c > 2 {
			room *= clustersFit
		}
		if float64(l.tiles*c) > room {
			break
		}
		if micros := m.clusters(id, l, c); micros < best {
			size, best = c, micros
		}
	}
	return size
}

// clusters predicts the microseconds of a launch in which clusters share the tiles
// of l.
func (m *model) clusters(id tileID, l load, size int) float64 {
	groups := float64(l.tiles) * float64(size)
	longest := math.Ceil(float64(l.longest) / float64(size))
	return clusterMicros + m.launch(id, longest, groups, max(l.steps, groups), l.loads, 0,
		m.family.terms.cluster)
}

// clusterMicros is what the thread groups of a cluster wait for each other, and
// for sums from each other's shared memory.
const clusterMicros = 0.90
