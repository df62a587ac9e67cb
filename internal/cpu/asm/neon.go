package main

import (
	"fmt"
	"os"
	"strings"
)

// neon writes kernels for arm64 of up to 6 rows and 4 vectors: 24 registers of sums, 4 of B and 2 of A, for
// fp32 and for fp64. It writes text, because avo only knows amd64.
func neon() error {
	var text strings.Builder
	var arm64 stubs
	text.WriteString(generated + "#include \"textflag.h\"\n")
	for _, of := range []armNumber{armSingle, armDouble} {
		for _, edge := range []bool{false, true} {
			var kernels [][]string
			for rows := 1; rows <= 6; rows++ {
				var names []string
				for vectors := 1; vectors <= 4; vectors++ {
					k := armKernel{Builder: &text, armNumber: of, rows: rows, vectors: vectors, edge: edge}
					k.write()
					names = append(names, arm64.declare(k.name(), "p *micro"))
				}
				kernels = append(kernels, names)
			}
			arm64.kernels(of.prefix+map[bool]string{false: "Kernels", true: "EdgeKernels"}[edge], kernels)
		}
	}
	if err := os.WriteFile("../kernels_arm64.s", []byte(text.String()), 0o644); err != nil {
		return err
	}
	return arm64.write("../kernels_arm64.go", "")
}

// armNumber is a type of elements.
type armNumber struct {
	prefix      string // of names
	lanes       string // of a vector
	bytes       int
	alpha, beta int // offsets in package cpu's type micro
	load        string
	shift       int // drops the sign of beta
	product     int // FMUL, which Go's assembler lacks
}

var (
	armSingle = armNumber{"neon", "S4", 4, offAlpha, offBeta, "MOVWU", 33, 0x6e20dc00}
	armDouble = armNumber{"doubleNeon", "D2", 8, offAlpha64, offBeta64, "MOVD", 1, 0x6e60dc00}
)

// armKernel is a kernel being written. R0 has the arguments, R1 to R6 have rows of A.
type armKernel struct {
	*strings.Builder
	armNumber
	rows, vectors int
	edge          bool // the last vector has fewer lanes
	labels        int
}

func (k *armKernel) name() string {
	name := fmt.Sprintf("%s%dx%d", k.prefix, k.rows, k.vectors)
	if k.edge {
		name += "edge"
	}
	return name
}

func (k *armKernel) line(format string, args ...any) { fmt.Fprintf(k, "\t"+format+"\n", args...) }

func (k *armKernel) label(name string) { fmt.Fprintf(k, "%s:\n", name) }

func (k *armKernel) sum(row, vector int) int { return row*k.vectors + vector }

// Registers of a kernel besides those of A's rows.
const (
	armStepA = "R7"
	armB     = "R8"
	armStepB = "R9"
	armDepth = "R10"
	armAt    = "R11"
	armStep  = "R12"
	armLanes = "R13"
	armPart  = "R14"
	vectorB  = 24
	vectorA  = 28 // two, alternating
)

// row loads or stores the vectors of a row at armAt, and preserves armAt.
func (k *armKernel) row(op string, first int) {
	whole := k.vectors
	if k.edge {
		whole--
	}
	if whole > 0 {
		var list []string
		for v := range whole {
			list = append(list, fmt.Sprintf("V%d.%s", first+v, k.lanes))
		}
		k.memory(op, "["+strings.Join(list, ", ")+"]", armAt)
	}
	if k.edge {
		k.part(op, first+whole, 16*whole)
	}
}

func (k *armKernel) memory(op, registers, at string) {
	if op == "VLD1" {
		k.line("VLD1 (%s), %s", at, registers)
		return
	}
	k.line("VST1 %s, (%s)", registers, at)
}

// part is row for the last vector, of 1 to 3 lanes of fp32, or one of fp64.
func (k *armKernel) part(op string, register, offset int) {
	if k.bytes == 8 {
		k.scalar(op, "FMOVD", register, offset)
		return
	}
	k.labels++
	one, end := fmt.Sprintf("one%d", k.labels), fmt.Sprintf("end%d", k.labels)
	k.line("CMP $2, %s", armLanes)
	k.line("BLT %s", one)
	k.scalar(op, "FMOVD", register, offset)
	k.line("BEQ %s", end)
	k.line("ADD $%d, %s, %s", offset+8, armAt, armPart)
	k.memory(op, fmt.Sprintf("V%d.S[2]", register), armPart)
	k.line("B %s", end)
	k.label(one)
	k.scalar(op, "FMOVS", register, offset)
	k.label(end)
}

func (k *armKernel) scalar(op, move string, register, offset int) {
	if op == "VLD1" {
		k.line("%s %d(%s), F%d", move, offset, armAt, register)
		return
	}
	k.line("%s F%d, %d(%s)", move, register, offset, armAt)
}

func (k *armKernel) write() {
	fmt.Fprintf(k, "\n// func %s(p *micro)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", k.name(), k.name())
	k.line("MOVD p+0(FP), R0")
	k.line("MOVD %d(R0), %s", offLanes, armLanes)
	k.begin()
	k.multiply()
	k.finish()
	k.line("RET")
}

// add adds the products of two vectors to a third.
func (k *armKernel) add(x, y, sum int) {
	k.line("VFMLA V%d.%s, V%d.%s, V%d.%s", x, k.lanes, y, k.lanes, sum, k.lanes)
}

// begin sets sums to 0, or to those of an earlier part of K.
func (k *armKernel) begin() {
	k.line("MOVD %d(R0), %s", offSum, armAt)
	k.line("CBNZ %s, continued", armAt)
	for i := range k.rows * k.vectors {
		k.line("VEOR V%d.B16, V%d.B16, V%d.B16", i, i, i)
	}
	k.line("B product")
	k.label("continued")
	for r := range k.rows {
		k.row("VLD1", k.sum(r, 0))
		k.line("ADD $%d, %s, %s", k.bytes*sumRow, armAt, armAt)
	}
	k.label("product")
}

func (k *armKernel) multiply() {
	k.line("MOVD %d(R0), %s", offDepth, armDepth)
	k.line("CBZ %s, store", armDepth)
	k.line("MOVD %d(R0), R1", offA)
	k.line("MOVD %d(R0), %s", offRowA, armStep)
	for r := 1; r < k.rows; r++ {
		k.line("ADD %s, R%d, R%d", armStep, r, r+1)
	}
	k.line("MOVD %d(R0), %s", offKA, armStepA)
	k.line("MOVD %d(R0), %s", offB, armAt)
	k.line("MOVD %d(R0), %s", offRowB, armStepB)
	k.label("step")
	k.row("VLD1", vectorB)
	k.line("ADD %s, %s, %s", armStepB, armAt, armAt)
	for r := range k.rows {
		a := vectorA + r%2
		k.line("VLD1R (R%d), [V%d.%s]", r+1, a, k.lanes)
		k.line("ADD %s, R%d, R%d", armStepA, r+1, r+1)
		for v := range k.vectors {
			k.add(vectorB+v, a, k.sum(r, v))
		}
	}
	k.line("SUBS $1, %s, %s", armDepth, armDepth)
	k.line("BNE step")
}

// finish stores alpha*sum, with beta*C unless beta is 0.
func (k *armKernel) finish() {
	k.label("store")
	k.line("ADD $%d, R0, %s", k.alpha, armPart)
	k.line("VLD1R (%s), [V%d.%s]", armPart, vectorA, k.lanes)
	for i := range k.rows * k.vectors {
		k.line("WORD $%#x // FMUL V%d, V%d, V%d", k.product|vectorA<<16|i<<5|i, i, i, vectorA)
	}
	k.line("MOVD %d(R0), %s", offRowC, armStep)
	k.line("%s %d(R0), %s", k.load, k.beta, armB)
	k.line("LSL $%d, %s, %s", k.shift, armB, armB)
	k.line("CBZ %s, write", armB)
	k.line("ADD $%d, R0, %s", k.beta, armPart)
	k.line("VLD1R (%s), [V%d.%s]", armPart, vectorA, k.lanes)
	k.line("MOVD %d(R0), %s", offC, armAt)
	for r := range k.rows {
		k.row("VLD1", vectorB)
		k.line("ADD %s, %s, %s", armStep, armAt, armAt)
		for v := range k.vectors {
			k.add(vectorB+v, vectorA, k.sum(r, v))
		}
	}
	k.label("write")
	k.line("MOVD %d(R0), %s", offC, armAt)
	for r := range k.rows {
		k.row("VST1", k.sum(r, 0))
		k.line("ADD %s, %s, %s", armStep, armAt, armAt)
	}
}
