package gcn

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner/element"
)

// without returns a kernel without some instructions, which then take no time. leave is told of removed
// waits.
func (k *Kernel) without(gone func(i int) bool) *Kernel {
	own := *k
	own.code = slices.Clone(k.code)
	for i := range own.code {
		if in := &own.code[i]; gone(i) {
			in.operation = &operation{name: removed, unit: salu}
			in.reads, in.writes, in.run = nil, nil, nothing
		}
	}
	return &own
}

// subject is a kernel and what runs it.
type subject struct {
	kernel *Kernel
	run    func(*Kernel) error // returns the first error of all plans
}

func (s *subject) find(f func(in *instruction) bool) (at []int) {
	for i := range s.kernel.code {
		if f(&s.kernel.code[i]) {
			at = append(at, i)
		}
	}
	return at
}

// gemmSubject returns a kernel that multiplies, or a fix-up, with the plans of its tile that launch it.
func gemmSubject(t *testing.T, o *Object, arch native.Arch, k encoding.Kernel) *subject {
	t.Helper()
	name := arch.KernelName(k)
	of := max(k.TypeA, k.TypeC)
	var all []*job
	switch {
	case of == element.F64:
		all = doubleJobs(t, arch, k.Tile)[1:13] // the first is deep
	case k.Epilogue == encoding.Epilogue{}:
		all = tileJobs(t, arch, k.Tile, of, k.TransA, k.TransB)
	default:
		all = epilogueJobs(t, arch, k.Tile, of, int(2*bit(k.TransA)+bit(k.TransB)))
		for other := 1; k.Fixup && other < 4; other++ { // it has none
			all = append(all, epilogueJobs(t, arch, k.Tile, of, other)...)
		}
	}
	jobs := slices.DeleteFunc(all, func(j *job) bool {
		return !slices.ContainsFunc(j.plan.Launches,
			func(l encoding.Launch) bool { return arch.KernelName(l.Kernel) == name })
	})
	return &subject{kernelOf(t, o, name), func(changed *Kernel) error {
		own := Object{Arch: o.Arch, kernels: maps.Clone(o.kernels)}
		own.kernels[name] = func() (*Kernel, error) { return changed, nil }
		for i, j := range jobs {
			if _, err := j.run(&own, arch, i%2 == 1, nil); err != nil {
				return err
			}
		}
		return nil
	}}
}

// raggedSubject returns a kernel that makes items, with few groups and many.
func raggedSubject(t *testing.T, o *Object, arch native.Arch, k encoding.Kernel) *subject {
	t.Helper()
	jobs := slices.Concat(fewGroups(t, arch, k), manyGroups(t, arch, k, int(k.Entries), 1),
		manyGroups(t, arch, k, 80, 3))
	return &subject{kernelOf(t, o, arch.KernelName(k)), func(changed *Kernel) error {
		for i, j := range jobs {
			if _, err := j.run(changed, i%2 == 1, nil); err != nil {
				return err
			}
		}
		return nil
	}}
}

// forSubjects runs a test for the kernels of a filter.
func forSubjects(t *testing.T, filter func(k encoding.Kernel) bool, f func(t *testing.T, s *subject)) {
	t.Helper()
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		all := kernels.Ragged()
		for _, shape := range append(shapesOf(arch), doubleShapes(arch)...) {
			all = append(all, arch.Variants(shape)...)
		}
		for _, k := range all {
			if !filter(k) {
				continue
			}
			t.Run(name+"/"+arch.KernelName(k), func(t *testing.T) {
				sample.Products.Skip(t, 6)
				o := readProduct(t, name)
				t.Parallel()
				if k.Ragged > 0 {
					f(t, raggedSubject(t, o, arch, k))
				} else {
					f(t, gemmSubject(t, o, arch, k))
				}
			})
		}
	}
}

func isWait(in *instruction) bool { return in.name == "s_waitcnt" || in.name == "s_waitcnt_vscnt" }

// isCache reports whether an instruction affects caches, for other workgroups.
func isCache(in *instruction) bool { return strings.HasPrefix(in.name, "buffer_") }

// TestWithoutAll: no kernel works without its barriers, nor without its waits of a counter, its cache
// instructions, or, on CDNA, its s_nop if any counts.
func TestWithoutAll(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	// of kernels with an epilogue that multiply, one tile, which takes little time
	filter := func(k encoding.Kernel) bool {
		return k.Epilogue == encoding.Epilogue{} || k.Ragged > 0 || k.Tile.Name == "tiny-k4"
	}
	forSubjects(t, filter, func(t *testing.T, s *subject) {
		for what, f := range map[string]func(in *instruction) bool{
			"barriers": func(in *instruction) bool { return in.name == "s_barrier" },
			"waits for loads": func(in *instruction) bool {
				return isWait(in) &&
					in.waits[loads] < noWait[loads]
			},
			"waits for shared": func(in *instruction) bool {
				return isWait(in) &&
					in.waits[shared] < noWait[shared]
			},
			"waits for stores": func(in *instruction) bool {
				return isWait(in) &&
					in.waits[stores] < noWait[stores]
			},
			"wait states": func(in *instruction) bool {
				return s.kernel.arch.waitStates && in.name == "s_nop" && in.src[0].value > 0
			},
			"waits for reciprocal": func(in *instruction) bool { return in.name == "s_waitcnt_depctr" },
			"write-backs":          func(in *instruction) bool { return in.writesBack },
			"emptied caches":       func(in *instruction) bool { return isCache(in) && !in.writesBack },
		} {
			at := s.find(f)
			if len(at) == 0 {
				continue
			}
			err := s.run(s.kernel.without(func(i int) bool { return slices.Contains(at, i) }))
			if err == nil {
				t.Errorf("%s: nothing notices that %d are gone", what, len(at))
			}
		}
	})
}

// leave marks the operations that a wait would end.
func (p *pending) leave(most *[counters]int) (any bool) {
	for c, q := range p.queues {
		for i := range q[:max(0, len(q)-most[c])] {
			q[i].left, any = true, true
		}
	}
	return any
}

// leaving removes waits. It notes which other waits end the same operations, and whether there were any.
func (s *subject) leaving(gone map[int]bool) (changed *Kernel, others map[int]bool, any *bool) {
	others, any = map[int]bool{}, new(bool)
	changed = s.kernel.without(func(i int) bool { return gone[i] })
	for i := range changed.code {
		in := &changed.code[i]
		switch {
		case gone[i]:
			in.run = func(w *wave, in *instruction) { *any = w.pending.leave(&in.waits) || *any }
		case isWait(in):
			in.run = func(w *wave, in *instruction) {
				if w.pending.wait(&in.waits) {
					others[i] = true
				}
			}
		}
	}
	return changed, others, any
}

// barrierAt reports whether there is a barrier after i, or before it, with no memory access between except a
// write-back.
func (s *subject) barrierAt(i, step int) bool {
	for ; ; i += step {
		switch in := &s.kernel.code[i]; {
		case in.name == "s_barrier":
			return true
		case in.unit == branch || in.unit == memory && !in.writesBack:
			return false
		}
	}
}

// TestMutants removes single instructions from kernels of every kind, or one wait state from an s_nop.
//
// Every removed barrier is noticed, with three exceptions. The two of alike (dialect_hip.h) are around a
// store of a byte: the 32 threads that it compares are in one wave. After that of finishPartial (store.cuh),
// arrivesLast has another one (dialect_hip.h); where barriers wait for stores, either suffices. Many needs
// that at the end of choose (ragged.cuh), but Single keeps in registers what it notes. Every
// s_waitcnt_depctr is noticed, and so are all cache instructions. So is every s_nop that runs, with three
// exceptions: on RDNA they are padding; on CDNA they may follow s_cbranch_execnz, or s_cbranch_execz around
// s_branch, because the compiler does not know that exec is not 0 after products, and on gfx942 they may be
// between writes of lanes of one register, to which no wait state is known.
//
// For an s_waitcnt one of these must hold, because compilers put waits where one path of many needs them:
//   - It is noticed.
//   - Other waits wait for the same operations before they are used, and removing all of these is noticed.
//   - In these plans nothing is ever in flight there. This holds for less than two thirds.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	filter := func(k encoding.Kernel) bool {
		if k.Epilogue != (encoding.Epilogue{}) {
			return false
		}
		if k.Ragged > 0 {
			return k.Entries == 256 && k.Form == encoding.EndsOfRows
		}
		if k.TypeC == element.F64 {
			return k.Tile.Name == "f64-64x64"
		}
		if k.TypeA.Bytes() == 1 { // one is K-major
			return k.Tile.Name == "tiny-k4" && k.TypeA == element.E4M3 && !k.TransA && !k.TransB
		}
		if k.TypeA != element.F32 { // both operands MN-major, with K groups
			return k.Tile.Name == "small-k8" && k.TypeA == element.BF16 && k.TransA && !k.TransB
		}
		switch k.Tile.Name {
		case "medium-k2":
			return k.TransB && !k.TransA
		case "small-k8":
			return k.TransB && k.TransA
		case "tiny-k4":
			return k.TransA && !k.TransB
		}
		return k.Tile.Name == "small" && k.Fixup
	}
	forSubjects(t, filter, func(t *testing.T, s *subject) {
		all, idle := s.find(isWait), 0
		for _, i := range all {
			gone := map[int]bool{i: true}
			for {
				changed, others, any := s.leaving(gone)
				if s.run(changed) != nil {
					break
				}
				if !*any {
					idle++
					break
				}
				before := len(gone)
				if maps.Copy(gone, others); len(gone) == before {
					in := &s.kernel.code[i]
					t.Errorf("nothing notices that %s at %#x is gone, and %d waits more", in.text, in.address,
						len(gone)-1)
					break
				}
			}
		}
		require.Less(t, 3*idle, 2*len(all), "waits for nothing")
		t.Logf("%d waits, of which %d have nothing to wait for", len(all), idle)
		spare := false
		for _, i := range s.find(func(in *instruction) bool {
			return in.name == "s_barrier" || in.name == "s_waitcnt_depctr" || isCache(in) ||
				in.name == "s_nop" && s.kernel.arch.waitStates
		}) {
			in := &s.kernel.code[i]
			ran := false
			changed := s.kernel.without(func(j int) bool { return j == i })
			if in.name == "s_nop" && in.src[0].value > 0 { // one wait state fewer
				src := slices.Clone(in.src)
				src[0].value--
				changed.code[i] = *in
				changed.code[i].src = src
			}
			changed.code[i].run = func(*wave, *instruction) { ran = true }
			err := s.run(changed)
			near := s.kernel.code[max(0, i-4):min(i+5, len(s.kernel.code))]
			before := i - 1
			if s.kernel.code[before].name == "s_branch" {
				before--
			}
			allowed := strings.HasPrefix(s.kernel.code[before].name, "s_cbranch_exec") ||
				in.name == "s_nop" && s.kernel.code[i+1].name == "v_writelane_b32"
			if in.name == "s_barrier" {
				allowed = slices.ContainsFunc(near,
					func(in instruction) bool {
						return in.name == "ds_write_b8" ||
							in.name == "ds_store_b8"
					}) ||
					s.barrierAt(i+1, 1) || s.kernel.arch.drains && s.barrierAt(i-1, -1)
			}
			if ran && err == nil && !allowed {
				if in.name == "s_barrier" && strings.Contains(t.Name(), "bg_ragged") && !spare {
					spare = true
					continue
				}
				t.Errorf("nothing notices that %s at %#x is gone", in.text, in.address)
			}
		}
	})
}
