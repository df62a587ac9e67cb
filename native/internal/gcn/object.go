// Package gcn runs the machine code of AMD GPUs on a CPU, for tests: the code objects that the HIP backend
// loads, disassembled by llvm-objdump. It computes like the hardware, and reports what the hardware leaves
// undefined: a register that is used while a memory operation still writes it (counters.go), or too soon
// after an instruction (hazards.go), accesses outside of buffers, races (order.go), and shared memory that
// two waves access without a barrier between (shared.go).
//
// An operation is a line of the tables in scalar.go, vector.go, half.go, matrix.go, memory.go, private.go
// and order.go. Object.Kernel fails with the name of an operation that no table has. AMD's documents of the
// instruction sets of CDNA 1 to 3, RDNA 2 and RDNA 3 define the operations.
package gcn

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/batchgemm/batchgemm/internal/codeobject"
)

// Disassembler is the program that Read runs, from Debian's package llvm-19.
const Disassembler = "llvm-objdump-19"

// Object is the kernels of a code object. Each kernel is disassembled and decoded when it is first needed.
type Object struct {
	Arch    string // such as "gfx90a"
	kernels map[string]func() (*Kernel, error)
}

// Kernel decodes a kernel. It fails if no table has one of its instructions.
func (o *Object) Kernel(name string) (*Kernel, error) {
	decoded, ok := o.kernels[name]
	if !ok {
		return nil, fmt.Errorf("gcn: %s has no kernel %s", o.Arch, name)
	}
	return decoded()
}

// Kernel is one kernel, decoded.
type Kernel struct {
	Name string
	arch *arch
	code []instruction
	meta codeobject.Kernel
	// literals are literals that instructions share.
	literals map[uint32]*lanesOf

	// Places of registers at the start (AMDGPUUsage, "Initial Kernel Execution State").
	arguments, firstGroup int // scalar registers: address of the arguments; number of the workgroup
	groupIDs              [3]bool
}

// arch is the differences between architectures.
type arch struct {
	stores     bool // stores have their own counter, vscnt
	waitStates bool // software waits for the results of some instructions (hazards.go)
	accFile    bool // accumulation registers are a separate file, which only few instructions reach
	// nothing may be in flight at a barrier, because it cannot go back after a fault (LLVM,
	// FeatureBackOffBarrier)
	drains bool
	// matrix cores replace subnormal numbers by 0, except in fp32 (PyTorch, "Numerical accuracy", on MI200)
	flushes bool
	// v_cvt_f16_f32 preserves the high half of its register (LLVM, zeroesHigh16BitsOfDest)
	keepsHigh bool
	// Flat operations and those on shared memory end in the order in which they start (LLVM,
	// FeatureFlatLgkmVMemCountInOrder).
	flatInOrder bool
	gfx940      bool
	gfx11       bool
}

var arches = map[string]*arch{
	"gfx908":  {waitStates: true, accFile: true, drains: true},
	"gfx90a":  {waitStates: true, flushes: true},
	"gfx942":  {waitStates: true, gfx940: true},
	"gfx1030": {stores: true, keepsHigh: true, flatInOrder: true},
	"gfx1100": {stores: true, keepsHigh: true, flatInOrder: true, drains: true, gfx11: true},
}

// Read reads a code object.
func Read(code []byte) (*Object, error) {
	meta, err := codeobject.Read(code)
	if err != nil {
		return nil, err
	}
	a, ok := arches[meta.Arch]
	if !ok {
		return nil, fmt.Errorf("gcn: no architecture %q", meta.Arch)
	}
	kernels := map[string]*Kernel{}
	for _, k := range meta.Kernels {
		kernels[k.Name] = &Kernel{Name: k.Name, arch: a, meta: k}
	}
	if err := describe(code, kernels); err != nil {
		return nil, err
	}
	o := &Object{Arch: meta.Arch, kernels: map[string]func() (*Kernel, error){}}
	for name, k := range kernels {
		o.kernels[name] = sync.OnceValues(func() (*Kernel, error) {
			if err := k.decode(code, meta.Arch); err != nil {
				return nil, fmt.Errorf("gcn: %s of %s: %w", name, meta.Arch, err)
			}
			return k, nil
		})
	}
	return o, nil
}

// decode disassembles the kernel of a code object, and decodes its instructions.
func (k *Kernel) decode(code []byte, arch string) error {
	// From a pipe, because it only reads files with a name.
	cmd := exec.Command(Disassembler, "-d", "--mcpu="+arch, "--disassemble-symbols="+k.Name, "-")
	cmd.Stdin = bytes.NewReader(code)
	listing, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", Disassembler, err)
	}
	for line := range strings.Lines(string(listing)) {
		if !strings.HasPrefix(line, "\t") {
			continue
		}
		in, err := k.parse(line)
		if err != nil {
			return fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
		}
		k.code = append(k.code, in)
	}
	return k.link()
}

// link finds relations between instructions, above all the targets of branches. It ends the code after the
// last instruction that nothing continues from: the rest is padding.
func (k *Kernel) link() error {
	at := map[uint64]int{}
	end := 0
	for i := range k.code {
		at[k.code[i].address] = i
		if name := k.code[i].name; name == "s_endpgm" || name == "s_branch" {
			end = i + 1
		}
	}
	if end == 0 {
		return errors.New("no code")
	}
	k.code = k.code[:end]
	for i := range k.code {
		in := &k.code[i]
		if in.unit != branch {
			continue
		}
		to, ok := at[in.address+4+4*uint64(int64(int16(in.src[0].value)))]
		if !ok || to >= end {
			return fmt.Errorf("%s goes nowhere", in.text)
		}
		in.target = to
	}
	k.findLooks()
	return nil
}

// describe reads the kernel descriptors (AMDGPUUsage, "Kernel Descriptor").
func describe(code []byte, kernels map[string]*Kernel) error {
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return err
	}
	defer file.Close() // of a bytes.Reader: cannot fail
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	section := file.Section(".rodata")
	data, err := section.Data()
	if err != nil {
		return err
	}
	seen := 0
	for _, s := range symbols {
		k := kernels[strings.TrimSuffix(s.Name, ".kd")]
		if k == nil || k.Name == s.Name {
			continue
		}
		seen++
		const bytes = 64
		if at := s.Value - section.Addr; at > uint64(len(data)) || uint64(len(data))-at < bytes {
			return fmt.Errorf("gcn: %s lies nowhere", s.Name)
		}
		if err := k.describe(data[s.Value-section.Addr:][:bytes]); err != nil {
			return fmt.Errorf("gcn: %s: %w", k.Name, err)
		}
	}
	if seen != len(kernels) {
		return fmt.Errorf("gcn: %d descriptors of %d kernels", seen, len(kernels))
	}
	return nil
}

func (k *Kernel) describe(descriptor []byte) error {
	rsrc1, rsrc2 := binary.LittleEndian.Uint32(descriptor[48:]), binary.LittleEndian.Uint32(descriptor[52:])
	properties := binary.LittleEndian.Uint16(descriptor[56:])
	// Rounding to nearest even, subnormals kept, both in fp32 and in the others.
	if mode := rsrc1 >> 12 & 0xff; mode != 0xf0 {
		return fmt.Errorf("float mode %#x", mode)
	}
	// Registers that the user sets, in order. Here only those of the arguments are known.
	const privateBuffer, arguments = 1 << 0, 1 << 3
	if other := properties & 0x7f &^ (privateBuffer | arguments); other != 0 || properties&arguments == 0 {
		return fmt.Errorf("user registers %#x", properties)
	}
	k.arguments = 4 * int(properties&privateBuffer)
	k.firstGroup = int(rsrc2 >> 1 & 0x1f)
	for i := range k.groupIDs {
		k.groupIDs[i] = rsrc2>>(7+i)&1 != 0
	}
	if items := rsrc2 >> 11 & 3; items != 0 {
		return fmt.Errorf("work-items have %d numbers more", items)
	}
	return nil
}
