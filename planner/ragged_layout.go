package planner

import (
	"math"
	"math/bits"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// workers returns the number of thread groups of a launch. Each has one tile after the other. Warpgroups
// take long to start, so there are as many as run at once. Other kernels have more if many tiles are
// expected, and the hardware evens them out; workers without tiles take little time.
func (b *raggedBuilder) workers(k *raggedKernel) (int, error) {
	t, d := &b.model.tiles[k.id], b.Device
	n := t.resident
	if t.shape.Unit != tile.WGMMA {
		n = min(max(2*k.tiles, n), raggedRounds*n)
	}
	if d.MaxTrips > 0 {
		steps := max(ceilShift(b.Ragged.K, shift(t.shape.TK)), 1) * b.model.products
		if steps > b.model.trips.steps(t.shape) {
			return 0, b.Ragged.wrong("K %d takes more loop iterations than the %d that %s allows", b.Ragged.K,
				d.MaxTrips, d.Name)
		}
		n = max(n, ceilDiv(k.most, max(b.model.trips.steps(t.shape)/steps, 1)))
	}
	n = max(min(n, k.most), 1)
	if d.MaxWorkers > 0 && n > d.MaxWorkers {
		return 0, b.Ragged.wrong("%d tiles %s are more than the workers of a launch on %s can take", k.most,
			t.shape.Name, d.Name)
	}
	return n, nil
}

// places returns the least number of words of a table. If the host has the sizes, it is as many as most
// tables need: the next batch then has its items in the same place, and a backend's bindings stay valid.
func (b *raggedBuilder) places(k *raggedKernel) int {
	if len(b.Records) == 0 {
		return encoding.DynamicWords
	}
	return raggedRounds*b.model.tiles[k.id].resident + 1
}

// raggedRounds is the most workers for each place on the device. On an H200, 8 took 2 percent longer than 4
// for 4096 problems of 8 to 32.
const raggedRounds = 4

// A thread group that makes items writes at least raggedTiles of them, and there are at most raggedMakers
// such groups: each native one plans all groups before it writes. On an H200, 64 took least with thousands
// of tiles, and little more with few.
const (
	raggedTiles  = 32
	raggedMakers = 64
)

// sections places the sections of a plan, one after the other.
type sections struct{ end int }

func (s *sections) add(words int) (start int) {
	start = s.end
	s.end = roundUp(s.end+words, encoding.SectionWords)
	return start
}

// layout makes the launches and places all sections, records first.
func (b *raggedBuilder) layout() error {
	at := sections{encoding.RaggedHead}
	at.add(len(b.Records))
	makers := b.raggedLaunches()
	capacity := 0
	for i := range b.n {
		k := &b.kernels[i]
		capacity = max(capacity, k.most)
		n, err := b.workers(k)
		if err != nil {
			return err
		}
		l := encoding.Launch{Kernel: b.product(k), Count: n, SpanA: b.ExtentA, SpanB: b.ExtentB,
			SpanC: b.ExtentC, SpanB2: b.ExtentB2, SpanBias: b.ExtentBias, SpanRows: b.ExtentRows}
		l.Table = at.add(max(n+1, b.places(k)))
		b.Launches = append(b.Launches, l)
		b.Workspace = max(b.Workspace, n*b.Device.kept(&l.Kernel), bound(&l.Kernel))
	}
	if capacity *= b.model.products; capacity > maxSegments {
		return invalid.Errorf("the batch may have too many tiles: more than %d", maxSegments)
	}
	products := b.Launches[makers+1:]
	items := at.add(capacity * products[0].ItemWords())
	for i := range products {
		products[i].Items = items
	}
	b.Launches[makers].Count = min(max(ceilDiv(capacity, raggedTiles), 1), raggedMakers)
	b.bound(products, b.Launches[makers].Count, items)
	if makers > 0 { // of one stage, which leaves its results in memory for the next
		entries := b.Ragged.entries()
		b.bounds[encoding.BoundStarts] = uint32(at.add(entries + 1))
		b.bounds[encoding.BoundOrder] = uint32(at.add(entries))
		b.bounds[encoding.BoundSplit] = uint32(at.add(encoding.SplitWords))
	}
	b.Words = at.end
	return nil
}

// raggedLaunches makes the first launches, which make items, and returns the index of the one that writes
// them.
func (b *raggedBuilder) raggedLaunches() (makers int) {
	b.Launches = b.Launches[:0]
	for _, stage := range b.Device.family().stages {
		k := b.Device.maker(stage, b.Ragged.Form, b.Ragged.entries(), b.Options.Epilogue.kernel(),
			b.Options.TypeC)
		b.Launches = append(b.Launches, encoding.Launch{Kernel: k, Count: 1})
	}
	return len(b.Launches) - 1
}

// maker returns the kernel of a stage that makes items from sizes of a form, for that many entries, with C of
// a type.
func (d *Device) maker(stage encoding.RaggedStage, form RaggedForm, entries int, e encoding.Epilogue,
	typeC element.Type) encoding.Kernel {
	k := encoding.Kernel{Ragged: stage, Epilogue: e}
	if !d.family().makers {
		return k
	}
	if k.Form = form; typeC == element.F64 {
		k.TypeC = typeC
	}
	for _, n := range slices.Backward(encoding.RaggedEntries[:]) {
		if int(n) >= entries {
			k.Entries = n
		}
	}
	return k
}

// product returns the kernel that multiplies. Warpgroups take dynamic tiles if each run makes the items.
// Items of records that the host knows are made once, for all runs until the next update.
func (b *raggedBuilder) product(k *raggedKernel) encoding.Kernel {
	r, t := b.Ragged, b.model.tiles[k.id].shape
	made := encoding.Kernel{Tile: t, TransA: r.TransA, TransB: r.TransB, TypeA: b.Options.TypeA,
		TypeC: b.Options.TypeC,
		Loop:  true, Dynamic: t.Unit == tile.WGMMA && len(b.Records) == 0, Vector: b.vector,
		TF32: b.model.tf32(t), Epilogue: b.Options.Epilogue.kernel()}
	if b.model.tiles[k.id].few {
		made = general(made, b.model.cutsAt)
	}
	return made
}

// bound writes the words of the bounds.
func (b *raggedBuilder) bound(products []encoding.Launch, makers, items int) {
	r := b.Ragged
	b.bounds = slices.Grow(b.bounds[:0], encoding.EpilogueBoundWords)[:encoding.EpilogueBoundWords]
	clear(b.bounds)
	set := func(word encoding.BoundWord, value int) { b.bounds[word] = uint32(value) }
	set(encoding.BoundForm, int(r.Form))
	set(encoding.BoundGroups, r.Groups)
	set(encoding.BoundEntries, r.entries())
	set(encoding.BoundM, r.M)
	set(encoding.BoundN, r.N)
	set(encoding.BoundK, r.K)
	set(encoding.BoundTransA, bit(r.TransA))
	set(encoding.BoundTransB, bit(r.TransB))
	set(encoding.BoundOffA, r.A.Offset)
	set(encoding.BoundOffB, r.B.Offset)
	set(encoding.BoundOffC, r.C.Offset)
	set(encoding.BoundLDA, r.A.LD)
	set(encoding.BoundLDB, r.B.LD)
	set(encoding.BoundLDC, r.C.LD)
	set(encoding.BoundStride, r.stride())
	of := b.Options.TypeC
	alpha, alphaLow := encoding.PutScalar(of, r.Alpha.Value())
	beta, betaLow := encoding.PutScalar(of, r.Beta)
	b.bounds[encoding.BoundRest], _ = encoding.PutScalar(of, r.Rest.beta())
	b.bounds[encoding.BoundAlpha], b.bounds[encoding.BoundBeta] = alpha, beta
	e := &b.Options.Epilogue
	x := r.bounds(e)
	set(encoding.BoundLenA, x.A)
	set(encoding.BoundLenB, x.B)
	set(encoding.BoundLenC, x.C)
	set(encoding.BoundKernels, b.n)
	set(encoding.BoundFlags, b.flags())
	set(encoding.BoundVector, b.Options.vector()-1) // operands may be anywhere: no load may
	set(encoding.BoundFill, b.fill)
	set(encoding.BoundBins, r.bins())
	set(encoding.BoundMakers, makers)
	set(encoding.BoundItems, items)
	for i := range products {
		b.boundKernel(i, &products[i])
	}
	set(encoding.BoundGatherRows, e.GatherRows)
	set(encoding.BoundScatterRows, e.ScatterRows)
	set(encoding.BoundRowsA, r.RowsA)
	set(encoding.BoundRowsC, r.RowsC)
	set(encoding.BoundWeights, r.Weights)
	set(encoding.BoundBias, r.Bias)
	if r.Form == Records {
		set(encoding.BoundWeights, bit(e.Weights))
		set(encoding.BoundBias, bit(e.Bias))
	}
	set(encoding.BoundStrideBias, r.StrideBias)
	set(encoding.BoundOffB2, r.B2.Offset)
	set(encoding.BoundLDB2, r.B2.LD)
	if e.Pointers.Any() {
		set(encoding.BoundPointers, r.Pointers)
	}
	set(encoding.BoundLenB2, x.B2)
	set(encoding.BoundLenBias, x.Bias)
	set(encoding.BoundLenRows, x.Rows)
	set(encoding.BoundScaleA, r.ScaleA)
	set(encoding.BoundScaleB, r.ScaleB)
	if of == element.F64 {
		b.bounds[encoding.BoundLow], b.bounds[encoding.BoundLow+1] = alphaLow, betaLow
	}
}

// flags returns the flags of all items.
func (b *raggedBuilder) flags() int {
	if b.Device.family().makers {
		return int(b.Options.flagsC())
	}
	return 0
}

// boundKernel writes the words of a kernel.
func (b *raggedBuilder) boundKernel(i int, l *encoding.Launch) {
	t := &b.model.tiles[b.kernels[i].id]
	w := b.bounds[int(encoding.BoundTile)+i*encoding.KernelWords:]
	w[encoding.KernelTM], w[encoding.KernelTN] = uint32(shift(t.shape.TM)), uint32(shift(t.shape.TN))
	w[encoding.KernelTK] = uint32(shift(t.shape.TK))
	steps := ceilShift(b.Ragged.K, shift(t.shape.TK))
	w[encoding.KernelShift] = uint32(max(bits.Len(uint(steps))-bits.Len(uint(b.Ragged.bins()-1)), 0))
	w[encoding.KernelWorkers], w[encoding.KernelTable] = uint32(l.Count), uint32(l.Table)
	w[encoding.KernelChunk] = uint32(bit(l.Dynamic) * b.chunk(&b.kernels[i], l.Count))
	w[encoding.KernelStep] = math.Float32bits(float32(t.busy))
	w[encoding.KernelWorker] = math.Float32bits(float32(t.worker))
	if i > 0 && b.alone {
		w[encoding.KernelStep] = math.Float32bits(float32(math.Inf(1)))
	}
}

// chunk returns how many tiles a worker takes at a time.
func (b *raggedBuilder) chunk(k *raggedKernel, workers int) int {
	t := &b.model.tiles[k.id]
	steps := max(ceilShift(b.mean.K, shift(t.shape.TK)), 1) * b.model.products
	return t.chunk(float64(steps), k.tiles, workers)
}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}

// bins returns the number of classes of K by which the groups of a kernel are sorted.
func (r *Ragged) bins() int {
	if r.Form == EndsOfRows {
		return 1
	}
	return encoding.RaggedKeys / encoding.RaggedKernels
}
