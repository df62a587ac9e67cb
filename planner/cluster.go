package planner

import "math"

// maxCluster is the largest cluster that pays. On an H200, clusters of 8 took longer than clusters of 4 for
// each of 20 batches, because few fit beside each other. An H100 with room for 264 thread groups runs 62
// clusters of four at once: a cluster lies within one part of the GPU, and the units of a part are not a
// multiple of four. A launch of 63 to 66 clusters takes 1.2 to 1.5 times as long as predicted.
const (
	maxCluster  = 4
	clustersFit = 0.94
)

// clusterSize returns the cluster size that computes a load soonest, or none if the tile has no kernels for
// clusters. All clusters must run at once: clusters that wait would make a second round.
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

// clusters predicts a launch in which clusters share the tiles of l, in microseconds.
func (m *model) clusters(id tileID, l load, size int) float64 {
	groups := float64(l.tiles) * float64(size)
	longest := math.Ceil(float64(l.longest) / float64(size))
	return clusterMicros + m.launch(id, longest, groups, max(l.steps, groups), l.loads, 0,
		m.family.terms.cluster)
}

// clusterMicros is how long the thread groups of a cluster wait for each other, and for sums from each
// other's shared memory.
const clusterMicros = 0.90
