package planner

import (
	"maps"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Transposition says whether problems have A and B transposed.
type Transposition struct {
	A bool `json:"a,omitempty"`
	B bool `json:"b,omitempty"`
}

// KernelGroup holds the kernels of one tile shape that plans with some options, also ragged plans, may need
// for problems of one transposition: all of them, or few that do the work of all. With options of the second
// product of a layer of experts, which scatters weighted rows, it has those of its routing and its sum of
// rows too.
type KernelGroup struct {
	Kernels []encoding.Kernel
	key     groupKey
}

// groupKey identifies a group.
type groupKey struct {
	shape *tile.Shape
	trans Transposition
	groupOptions
}

// groupOptions are the options that determine the kernels of a group.
type groupOptions struct {
	of, ofC  element.Type
	epilogue encoding.Epilogue
	tf32     bool
	schedule Schedule // "": any
	rule     Rule
	few      bool // see Planner.Kernels
}

func (o *Options) group() groupOptions {
	filled := o.filled()
	g := groupOptions{of: o.TypeA, ofC: o.TypeC, epilogue: o.Epilogue.kernel(),
		tf32:     o.Compute == ComputeTF32,
		schedule: filled.Schedule, rule: filled.Rule}
	if o.Custom != nil {
		g.schedule, g.rule = "", RuleCost
	}
	return g
}

// Kernels lists the kernels that Plan, Renew and PlanRagged may choose with the options, for problems of a
// transposition: a group for each tile shape that fits. It fails as Plan does for invalid options.
//
// few: only kernels with which a device can begin, if it has to compile them. The groups are those of
// 8 tile shapes (docs/webgpu.md has what others would gain), or of Options.Tile, and one kernel of a shape
// serves workers with any number of tiles and parts of tiles. Plans take few kernels if Options.Kernels has
// them, and not all. Kernels that come compiled are all listed.
func (p *Planner) Kernels(o Options, t Transposition, few bool) ([]KernelGroup, error) {
	few = few && p.device.family().compiled
	o.Kernels = nil
	if err := o.check(p.device); err != nil {
		return nil, err
	}
	var groups []KernelGroup
	var refused error
	var m model
	for _, a := range o.arithmetics(p.device, t) {
		if err := m.setFor(p.device, &o, a, nil); err != nil {
			return nil, err
		}
		if o.Tile != "" {
			_, refused = m.named(o.Tile)
		}
		for id := range m.tiles {
			tile := &m.tiles[id]
			if tile.fits && (o.Tile == "" && (!few || tile.shape.Few) || o.Tile == tile.shape.Name) {
				g := m.kernelGroup(tile, &o, t)
				if few {
					g.reduce(o.Epilogue.cutsAt())
				}
				groups = add(groups, g)
			}
		}
	}
	if len(groups) == 0 {
		return nil, refused
	}
	return groups, nil
}

// arithmetics lists those that plans with the options may have, for problems of a transposition.
func (o *Options) arithmetics(d *Device, t Transposition) []arithmetic {
	all := []arithmetic{o.arithmetic(d, false)}
	fast := o.arithmetic(d, true)
	if fast == all[0] || fast.bits == 8 && !o.quick(t.A, t.B) {
		return all
	}
	all = append(all, fast)
	if fast.boxes = fast.bits >= 8 && o.boxes(t.A, t.B); fast.boxes {
		all = append(all, fast)
	}
	return all
}

// add appends a group unless it is in the list: aligned and other rows may have the same groups.
func add(groups []KernelGroup, g KernelGroup) []KernelGroup {
	for i := range groups {
		if groups[i].key == g.key {
			return groups
		}
	}
	return append(groups, g)
}

// kernelGroup returns the group of a tile shape.
func (m *model) kernelGroup(of *tileModel, o *Options, t Transposition) KernelGroup {
	g := KernelGroup{key: groupKey{of.shape, t, o.group()}}
	base := encoding.Kernel{Tile: of.shape, TransA: t.A, TransB: t.B, TypeA: o.TypeA, TypeC: o.TypeC,
		TF32: m.tf32(of.shape), Epilogue: o.Epilogue.kernel()}
	loops, cuts := g.key.deals()
	cuts = cuts && cuttable(of.shape, o.Epilogue.cutsAt())
	dynamic := g.key.mayBeDynamic(of.shape)
	for _, vector := range choices(o.vector() > 0 && o.Epilogue.group() == 0) {
		for _, loop := range choices(loops || base.Epilogue.Gated) {
			for _, split := range choices(cuts) {
				if k := base; loop || !base.Epilogue.Gated {
					k.Vector, k.Loop, k.Split = vector, loop, split
					g.Kernels = append(g.Kernels, k)
					g.Kernels = append(g.Kernels, clustered(k, of)...)
					if part := k.Epilogue.OfPart(); part != k.Epilogue && o.accumulates() && !loop && !split {
						k := k // for windows that cut K
						k.Epilogue = part
						g.Kernels = append(g.Kernels, k)
					}
					if split && m.parts {
						k.Partials = true
						g.Kernels = append(g.Kernels, k)
					}
					if dynamic && loop && !split {
						k.Dynamic = true
						g.Kernels = append(g.Kernels, k)
					}
				}
			}
		}
	}
	for _, k := range g.Kernels {
		if k.Boxes = k.Vector && hasBoxes(k) && !g.key.ragged(); k.Boxes {
			g.Kernels = append(g.Kernels, k)
		}
	}
	if cuts {
		g.Kernels = append(g.Kernels, encoding.Kernel{Tile: of.shape, TypeC: o.TypeC, Fixup: true,
			Epilogue: base.Epilogue.OfFixup()})
	}
	if g.key.ragged() {
		g.Kernels = append(g.Kernels, m.device.makers(base.Epilogue, o.TypeC)...)
		if e := base.Epilogue; e.Scatter && e.Weights {
			g.Kernels = append(g.Kernels, stepKernels(o.TypeC)...)
		}
	}
	return g
}

// hasBoxes reports whether there is a kernel that copies boxes of fp32 in place of this one.
func hasBoxes(k encoding.Kernel) bool {
	return k.Tile.Raw && k.TypeA == element.F32 && !k.TF32 && !k.TransA && !k.Split &&
		k.Epilogue == encoding.Epilogue{}
}

// reduce leaves the few kernels of a group.
func (g *KernelGroup) reduce(cutsAt int) {
	all := g.Kernels
	g.Kernels, g.key.few = nil, true
	for _, k := range all {
		if k = general(k, cutsAt); !slices.Contains(g.Kernels, k) {
			g.Kernels = append(g.Kernels, k)
		}
	}
}

// general returns the one of few kernels that does the work of a kernel: its workers have any number of
// tiles, and store partials if tiles may be cut.
func general(k encoding.Kernel, cutsAt int) encoding.Kernel {
	if k.Tile != nil && !k.Fixup && !k.Dynamic {
		k.Loop, k.Split = true, cuttable(k.Tile, cutsAt)
	}
	return k
}

// bound returns the least workspace, in elements, that a kernel can be bound to.
func bound(k *encoding.Kernel) int { return 4 * bit(k.Split) }

// accumulates reports whether launches may add to C over windows of K.
func (o *Options) accumulates() bool { return o.sumsInC() && o.Epilogue.cutsAt() == 1 }

// sumsInC reports whether C has the type of sums, so that it can take parts of them.
func (o *Options) sumsInC() bool { return o.TypeC == elemtype.Sums(o.TypeA) }

// choices returns the values of an option: false, and true if it may be.
func choices(may bool) []bool {
	if may {
		return []bool{false, true}
	}
	return []bool{false}
}

// deals reports whether workers may have several segments, and whether tiles may be split.
func (g *groupOptions) deals() (loops, cuts bool) {
	switch {
	case g.rule == RuleZhang2025, g.schedule == ScheduleDataParallel, g.schedule == ScheduleCluster:
		return false, false
	case g.schedule == "":
		return true, true
	}
	return true, g.schedule.find().cuts
}

// mayBeDynamic reports whether workers may take dynamic tiles of a shape. If the planner chooses, only
// warpgroups do.
func (g *groupOptions) mayBeDynamic(s *tile.Shape) bool {
	return g.schedule == ScheduleDynamic || g.ragged() && s.Unit == tile.WGMMA
}

// ragged reports whether plans may be ragged, or made from records on the device.
func (g *groupOptions) ragged() bool { return g.schedule == "" && g.rule == RuleCost }

// clustered returns the variants of a kernel for clusters, if there are any.
func clustered(k encoding.Kernel, m *tileModel) (variants []encoding.Kernel) {
	if !m.clusters || k.Split {
		return nil
	}
	for _, n := range []uint8{2, 4, 8} {
		k.Cluster = n
		variants = append(variants, k)
	}
	return variants
}

// makers returns the kernels that make items on the device, for ragged plans and for Renew.
func (d *Device) makers(e encoding.Epilogue, typeC element.Type) (kernels []encoding.Kernel) {
	for _, stage := range d.family().stages {
		for form := EndsOfRows; form <= Records; form++ {
			for _, n := range encoding.RaggedEntries {
				if k := d.maker(stage, form, int(n), e, typeC); !slices.Contains(kernels, k) {
					kernels = append(kernels, k)
				}
			}
		}
	}
	return kernels
}

// stepKernels returns the kernels of routings, and of sums of rows of a type.
func stepKernels(of element.Type) (kernels []encoding.Kernel) {
	for _, index64 := range choices(true) {
		for _, weights := range [...]element.Type{element.F32, element.BF16, element.F16} {
			kernels = append(kernels, encoding.Kernel{Layer: encoding.LayerRoute, Index64: index64,
				TypeA: weights})
		}
		kernels = append(kernels, encoding.Kernel{Layer: encoding.LayerCombine, Index64: index64, TypeA: of,
			TypeC: of})
	}
	return kernels
}

// KernelSet is a set of kernels that are ready, for Options.Kernels. It is immutable. The zero value is
// empty. A nil *KernelSet in Options allows all kernels.
type KernelSet struct {
	groups map[groupKey]struct{}
}

// With returns the set with one more group.
func (s *KernelSet) With(g KernelGroup) *KernelSet {
	more := &KernelSet{map[groupKey]struct{}{g.key: {}}}
	if s != nil {
		maps.Copy(more.groups, s.groups)
	}
	return more
}

// Len returns the number of groups.
func (s *KernelSet) Len() int {
	if s == nil {
		return 0
	}
	return len(s.groups)
}

// has reports whether the set has a group with these kernels, and maybe more; few: with few that do the work
// of these.
func (s *KernelSet) has(key groupKey, few bool) bool {
	if s == nil {
		return false
	}
	key.few = few
	if _, found := s.groups[key]; found {
		return true
	}
	more := key
	more.schedule, more.rule = "", RuleCost
	_, found := s.groups[more]
	return found && (more.mayBeDynamic(key.shape) || !key.mayBeDynamic(key.shape))
}

// only restricts a plan to the tile shapes whose groups are in a set, if there is one, and not in another,
// for all transpositions of a batch. The zero value restricts nothing.
type only struct {
	kernels *KernelSet
	refused *KernelSet
	trans   uint8 // one bit each, by Problem.transposition
	options groupOptions
}

// only returns the restriction for a batch. The problem of a ragged batch has its transposition.
func (o *Options) only(d *Device, b Batch) (keep only) {
	if d.Refused != nil {
		keep.refused = d.Refused.Load()
	}
	if o.Kernels == nil && keep.refused.Len() == 0 {
		return only{}
	}
	keep.kernels, keep.options = o.Kernels, o.group()
	for i := range b {
		keep.trans |= 1 << b[i].transposition()
	}
	return keep
}

// allows reports whether plans may use a tile shape, and whether they must do so with few kernels. Those are
// among all of a group.
func (k *only) allows(s *tile.Shape) (allowed, few bool) {
	for bits := range 4 {
		if k.trans&(1<<bits) == 0 {
			continue
		}
		key := groupKey{s, Transposition{A: bits&2 != 0, B: bits&1 != 0}, k.options}
		if k.refused.has(key, false) || k.refused.has(key, true) {
			return false, false
		}
		if k.kernels != nil && !k.kernels.has(key, false) {
			if !k.kernels.has(key, true) {
				return false, false
			}
			few = true
		}
	}
	return true, few
}

// err is the error of a plan that may use no tile shape, or not the requested one; what says which.
func (k *only) err(d *Device, what string) error {
	if k.kernels == nil && k.refused.Len() > 0 {
		return invalid.Errorf("%s: device %s computed wrong results with these kernels when it checked "+
			"them: batchgemm devices --check has more", what, d.Name)
	}
	return invalid.Errorf("%s: kernels for these options and transpositions are missing in "+
		"Options.Kernels, for device %s", what, d.Name)
}
