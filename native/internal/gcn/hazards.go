package gcn

import (
	"errors"
	"fmt"
	"slices"
)

// Wait states: on CDNA some results may only be used a number of instructions later, so compilers insert
// s_nop. An instruction is one wait state, s_nop n is n+1 (as LLVM counts; on hardware some take longer). On
// RDNA the hardware waits, except for one error of gfx1100. The numbers are from LLVM's GCNHazardRecognizer.
// It has what AMD's instruction set documents list under "Manually Inserted Wait States", and more.

// recent is when registers were last used in ways that later instructions must stay away from. Times are
// wait states; times older than `long` do not matter.
type recent struct {
	clock int32

	valu   [registers]int32 // written by a vector instruction, except matrix cores
	trans  [registers]int32 // written by a transcendental function
	acc    [registers]int32 // written by v_accvgpr_read or v_accvgpr_write
	wide   [registers]int32 // stored to global memory in 12 bytes or more
	matrix [registers]product
	addend [registers]product // read by matrix cores as C

	lastAcc    int32
	lastMatrix int32
	lastDouble int32          // of fp64
	clause     []*instruction // consecutive loads from global memory

	vectors, transes int32 // counts, of gfx11
	transAt          [registers][2]int32
}

// product is the last matrix instruction of a register.
type product struct {
	at int32
	by *instruction
}

const long = 100

func (r *recent) forget() {
	r.clock += long
	r.clause = r.clause[:0]
	r.vectors += long
	r.transes += long
}

// since returns the number of wait states since an instruction, 0 for the previous one.
func (r *recent) since(at int32) int { return int(r.clock - at - 1) }

// late reports an instruction that follows the use of a register too soon.
func (r *recent) late(register int, at int32, need int, what string) error {
	if n := r.since(at); n < need {
		return fmt.Errorf("%s %s %d wait states before, %d are needed", registerName(register), what, n, need)
	}
	return nil
}

func (w *wave) checkHazards(in *instruction) error {
	if w.arch.gfx11 {
		return w.recent.checkTrans(in)
	}
	h := hazards{wave: w, recent: &w.recent}
	switch {
	case in.matrix != nil, w.arch.accFile && in.accMove:
		h.beforeMatrix(in)
	case in.unit == valu || in.unit == memory && in.counter != scalarLoads:
		h.beforeUse(in)
	}
	if in.unit == valu {
		h.beforeVector(in)
	}
	if in.unit == memory && (in.counter == loads || in.counter == stores) {
		h.beforeGlobal(in)
	}
	return h.err
}

// hazards keeps the first error.
type hazards struct {
	*wave
	*recent
	err error
}

func (h *hazards) need(register int, at int32, states int, what string) {
	if h.err == nil {
		h.err = h.late(register, at, states, what)
	}
}

func each(s span, f func(r int)) {
	for r := s.first; r < s.first+s.count; r++ {
		f(r)
	}
}

// beforeGlobal checks scalar registers that vector instructions wrote, and soft clauses. Consecutive loads
// may be repeated after a page fault (XNACK): none may write what one of them reads.
func (h *hazards) beforeGlobal(in *instruction) {
	for _, s := range in.reads {
		if s.first < vectors {
			each(s, func(r int) { h.need(r, h.valu[r], 5, "was written by a vector instruction") })
		}
	}
	if in.counter != loads || h.err != nil {
		return
	}
	clash := false
	for _, other := range h.clause {
		clash = clash || other.clash(other) || other.clash(in) || in.clash(other) || in.clash(in)
	}
	if clash {
		h.err = errClause
	}
}

// clauseLength is how far LLVM looks back for consecutive loads (MaxLookAhead). The products have longer
// sequences whose last load writes what the first reads.
const clauseLength = 5

var errClause = errors.New("of loads in a row one reads what one writes")

// clash reports whether a load writes what another reads.
func (in *instruction) clash(other *instruction) bool {
	return slices.ContainsFunc(other.reads, in.dst[0].overlaps)
}

// beforeVector checks a vector instruction.
func (h *hazards) beforeVector(in *instruction) {
	stored := 1
	if h.arch.gfx940 {
		stored = 2
	}
	for _, o := range in.dst {
		if o.kind == vector {
			each(o.span, func(r int) { h.need(r, h.wide[r], stored, "was stored") })
		}
	}
	lane := in.name == "v_readlane_b32"
	if (lane || in.name == "v_writelane_b32") && in.src[1].kind == scalar {
		h.need(in.src[1].first, h.valu[in.src[1].first], 4, "was written by a vector instruction")
	}
	if !h.arch.gfx940 {
		return
	}
	lane = lane || in.name == "v_readfirstlane_b32"
	for _, s := range in.reads {
		each(s, func(r int) {
			switch {
			case r < vectors:
				h.need(r, h.valu[r], 2, "was written by a vector instruction")
			case lane:
				h.need(r, h.valu[r], 1, "was written")
			case !in.trans:
				h.need(r, h.trans[r], 1, "was written by a transcendental function")
			}
		})
	}
	if lane {
		h.need(execReg, h.valu[execReg], 4, "was written by a vector instruction")
	}
}

// beforeUse checks registers that matrix cores write or read.
func (h *hazards) beforeUse(in *instruction) {
	if h.arch.accFile {
		if in.unit == memory {
			h.beforeMemory908(in)
		}
		return
	}
	if h.since(h.lastMatrix) > 19 {
		return
	}
	for _, list := range [][]span{in.reads, in.writes} {
		for _, s := range list {
			if s.first >= vectors {
				each(s, func(r int) {
					h.need(r, h.matrix[r].at, h.result(h.matrix[r].by),
						"was written by matrix cores")
				})
			}
		}
	}
	switch {
	case in.unit == memory:
		h.beforeMemoryOfDoubles(in)
	case in.name == "v_fma_f64", in.name == "v_fmac_f64":
		h.need(in.dst[0].first, h.lastDouble, 2, "is written after a product of fp64, which was issued")
	}
	for _, s := range in.writes {
		if s.first >= vectors {
			each(s, func(r int) {
				h.need(r, h.addend[r].at, h.read(h.addend[r].by),
					"was read by matrix cores")
			})
		}
	}
}

// beforeMemoryOfDoubles checks what memory operations read: a product of fp64, and what a vector instruction
// wrote before such a product began.
func (h *hazards) beforeMemoryOfDoubles(in *instruction) {
	for _, s := range in.reads {
		if s.first < vectors {
			continue
		}
		each(s, func(r int) {
			if by := h.matrix[r].by; by != nil && by.matrix.doubles {
				h.need(r, h.matrix[r].at, 18, "was written by matrix cores")
			}
			if !h.arch.gfx940 && h.valu[r] < h.lastDouble {
				h.need(r, h.valu[r], 2, "was written by a vector instruction before a product")
			}
		})
	}
}

// result returns the wait states until a product may be used, also as A and B.
func (h *hazards) result(by *instruction) int {
	switch {
	case by == nil:
		return 0
	case !h.arch.gfx940 || by.matrix.xdl || by.matrix.doubles:
		return by.matrix.passes + 3
	}
	return by.matrix.passes + 2
}

// read returns the wait states until C may be written.
func (h *hazards) read(by *instruction) int {
	if by == nil || h.arch.gfx940 && !by.matrix.xdl || by.matrix.doubles {
		return 0
	}
	return by.matrix.passes - 1
}

// asAddend returns the wait states until a product may be C of another, in other registers.
func (h *hazards) asAddend(by, in *instruction) int {
	switch {
	case by == nil || h.arch.gfx940 && in.matrix.xdl && !by.matrix.xdl:
		return 0
	case h.arch.gfx940 && by.matrix.xdl, by.matrix.doubles:
		return by.matrix.passes + 1
	}
	return by.matrix.passes
}

// beforeMatrix checks what matrix cores read.
func (h *hazards) beforeMatrix(in *instruction) {
	if h.arch.accFile {
		h.beforeMatrix908(in)
		return
	}
	h.need(execReg, h.valu[execReg], 4, "was written by a vector instruction")
	for i, o := range in.src {
		if o.kind != vector {
			continue
		}
		each(o.span, func(r int) {
			h.need(r, h.valu[r], 2, "was written by a vector instruction")
			by := h.matrix[r].by
			switch {
			case i < 2:
				h.need(r, h.matrix[r].at, h.result(by), "was written by matrix cores")
			case by == nil:
			case by.dst[0].span != o.span:
				h.need(r, h.matrix[r].at, h.asAddend(by, in), "was written by matrix cores")
			case h.arch.gfx940 && by.matrix.passes == 2:
				h.need(r, h.matrix[r].at, 2, "was written by matrix cores")
			}
		})
	}
}

// beforeMatrix908 checks gfx908: instructions of matrix cores, and the only ones that reach accumulation
// registers.
func (h *hazards) beforeMatrix908(in *instruction) {
	reading, writing := in.name == "v_accvgpr_read_b32", in.name == "v_accvgpr_write_b32"
	if !reading {
		h.need(execReg, h.valu[execReg], 4, "was written by a vector instruction")
	}
	for i, o := range in.src {
		if o.kind != vector {
			continue
		}
		each(o.span, func(r int) {
			if r < accs {
				if !reading {
					h.need(r, h.valu[r], 2, "was written by a vector instruction")
				}
				return
			}
			addend := i == 2
			fromAcc := 3
			if addend {
				fromAcc = 1
			}
			h.need(r, h.acc[r], fromAcc, "was written")
			p := h.matrix[r]
			switch {
			case p.by == nil || addend && p.by.dst[0].span == o.span:
			case addend:
				h.need(r, p.at, 2, "was written by matrix cores")
			case reading:
				h.need(r, p.at, p.by.matrix.passes+2, "was written by matrix cores")
			default:
				h.need(r, p.at, 4, "was written by matrix cores")
			}
		})
	}
	if !writing {
		return
	}
	r := in.dst[0].first
	if by := h.matrix[r].by; by != nil {
		h.need(r, h.matrix[r].at, by.matrix.passes-1, "was written by matrix cores")
	}
	if by := h.addend[r].by; by != nil {
		h.need(r, h.addend[r].at, max(0, by.matrix.passes-3), "was read by matrix cores")
	}
}

func (h *hazards) beforeMemory908(in *instruction) {
	for _, s := range in.reads {
		if s.first < vectors {
			continue
		}
		each(s, func(r int) {
			h.need(r, h.acc[r], 2, "was read from an accumulation register")
			if h.since(h.valu[r]) < 2 {
				h.need(r, h.lastAcc, 1, "was written, and an accumulation register was used")
			}
		})
	}
}

// checkTrans: gfx1100 may use a result that a transcendental function has not yet written, unless 6 vector
// instructions or 2 such functions are between (LLVM, fixVALUTransUseHazard).
func (r *recent) checkTrans(in *instruction) (err error) {
	if in.unit != valu {
		return nil
	}
	for _, s := range in.reads {
		if s.first >= vectors {
			each(s, func(reg int) {
				at := r.transAt[reg]
				if at != [2]int32{} && r.vectors-at[0] <= 5 && r.transes-at[1] <= 1 {
					err = fmt.Errorf("%s was written by a transcendental function, and nothing waits for it",
						registerName(reg))
				}
			})
		}
	}
	return err
}

// recordHazards notes what an instruction did.
func (w *wave) recordHazards(in *instruction) {
	r := &w.recent
	if w.arch.gfx11 {
		r.recordTrans(in)
		return
	}
	if in.unit == memory && in.counter == loads {
		r.clause = append(r.clause[max(0, len(r.clause)-(clauseLength-1)):], in)
	} else if len(r.clause) > 0 && in.name != removed {
		r.clause = r.clause[:0]
	}
	switch {
	case in.matrix != nil:
		if r.lastMatrix = r.clock; in.matrix.doubles {
			r.lastDouble = r.clock
		}
		each(in.dst[0].span, func(reg int) { r.matrix[reg] = product{r.clock, in} })
		if c := &in.src[2]; c.kind == vector {
			each(c.span, func(reg int) { r.addend[reg] = product{r.clock, in} })
		}
	case in.unit == valu:
		if in.accMove {
			r.lastAcc = r.clock
		}
		for _, s := range in.writes {
			each(s, func(reg int) {
				r.valu[reg] = r.clock
				r.matrix[reg].by = nil
				if in.accMove {
					r.acc[reg] = r.clock
				}
				if in.trans {
					r.trans[reg] = r.clock
				}
			})
		}
	case in.unit == memory:
		if in.counter == stores && in.src[1].count > 2 {
			each(in.src[1].span, func(reg int) { r.wide[reg] = r.clock })
		}
		if len(in.dst) > 0 {
			each(in.dst[0].span, func(reg int) { r.matrix[reg].by, r.valu[reg] = nil, r.clock-long })
		}
	}
	switch in.name {
	case "s_nop":
		r.clock += int32(in.src[0].value) + 1
	case removed:
	default:
		r.clock++
	}
}

// removed is the name of an instruction that a test has removed.
const removed = "removed"

func (r *recent) recordTrans(in *instruction) {
	switch {
	case in.unit == memory || in.name == "s_waitcnt_depctr" && in.src[0].value&0xf000 == 0:
		r.vectors += long
	case in.unit == valu:
		r.vectors++
		if in.trans {
			r.transes++
			each(in.dst[0].span, func(reg int) { r.transAt[reg] = [2]int32{r.vectors, r.transes} })
		}
	}
}
