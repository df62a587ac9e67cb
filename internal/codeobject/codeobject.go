// Package codeobject reads what the compiler noted in a code object of an AMD GPU: the arguments and the
// resources of its kernels. The format is an ELF file with a note in MessagePack (LLVM, User Guide for
// AMDGPU Backend, "Code Object V3 Metadata" to V5).
package codeobject

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Object is the metadata of a code object.
type Object struct {
	Arch    string // of its GPU, such as "gfx90a"
	Kernels []Kernel
}

// Kernel is what one kernel needs. Registers are counted for one work-item.
type Kernel struct {
	Name string
	// vector registers; including accumulation registers if they share a file (gfx90a, gfx942)
	VGPRs        int
	AGPRs        int // accumulation registers
	SGPRs        int // scalar registers of a wave
	Spills       int // registers that did not fit, vector and scalar
	LDS          int // bytes of shared memory of a workgroup
	Scratch      int // bytes of private memory of a work-item
	WaveSize     int
	MaxThreads   int // work-items of a workgroup that it is compiled for
	KernargBytes int // size of the argument block
	Args         []Arg
}

// Arg is an argument in the layout of the launch.
type Arg struct {
	Offset, Size int    // bytes, in the argument block
	Kind         string // "global_buffer", "by_value", or hidden ones, "hidden_..."
}

// Of elf.h and LLVM's AMDGPU ELF definitions.
const (
	machineAMDGPU = 224
	noteOwner     = "AMDGPU"
	noteMetadata  = 32
)

// Kernel finds a kernel by name.
func (o *Object) Kernel(name string) (*Kernel, bool) {
	i := slices.IndexFunc(o.Kernels, func(k Kernel) bool { return k.Name == name })
	if i < 0 {
		return nil, false
	}
	return &o.Kernels[i], true
}

// Read reads the metadata of a code object. It fails for other files, and if the metadata is damaged or
// lacks a number.
func Read(code []byte) (*Object, error) {
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return nil, fmt.Errorf("code object: %w", err)
	}
	defer file.Close() // of a bytes.Reader: cannot fail
	if file.Machine != machineAMDGPU {
		return nil, fmt.Errorf("code object: it is for machine %d, not for AMD GPUs", int(file.Machine))
	}
	for _, p := range file.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		// ReadAll ignores the stated size, which may be absurd.
		notes, err := io.ReadAll(p.Open())
		if err != nil {
			return nil, fmt.Errorf("code object: notes: %w", err)
		}
		if text, ok := findNote(notes, file.ByteOrder); ok {
			o, err := decode(text)
			if err != nil {
				return nil, fmt.Errorf("code object: metadata: %w", err)
			}
			return o, nil
		}
	}
	return nil, errors.New("code object: it has no metadata")
}

// findNote finds the metadata among the notes of a segment: sizes of name and content, type, name, content,
// each padded to 4 bytes.
func findNote(notes []byte, order binary.ByteOrder) (content []byte, ok bool) {
	for len(notes) >= 12 {
		nameSize, size, kind := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:])),
			order.Uint32(notes[8:])
		notes = notes[12:]
		start := (nameSize + 3) &^ 3
		if start+size > uint64(len(notes)) {
			return nil, false
		}
		name := strings.TrimRight(string(notes[:nameSize]), "\x00")
		content = notes[start : start+size]
		if name == noteOwner && kind == noteMetadata {
			return content, true
		}
		notes = notes[min(uint64(len(notes)), start+(size+3)&^3):]
	}
	return nil, false
}

func decode(text []byte) (*Object, error) {
	value, err := unpack(text)
	if err != nil {
		return nil, err
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a map")
	}
	r := reader{in: root}
	target := r.text("amdhsa.target")
	o := &Object{Arch: target[strings.LastIndex(target, "-")+1:]}
	o.Arch, _, _ = strings.Cut(o.Arch, ":") // without settings such as "xnack+"
	for _, m := range r.maps("amdhsa.kernels") {
		o.Kernels = append(o.Kernels, decodeKernel(&r, m))
	}
	return o, r.err
}

func decodeKernel(r *reader, m map[string]any) Kernel {
	r.in = m
	k := Kernel{
		Name:         r.text(".name"),
		VGPRs:        r.number(".vgpr_count"),
		SGPRs:        r.number(".sgpr_count"),
		Spills:       r.number(".vgpr_spill_count") + r.number(".sgpr_spill_count"),
		LDS:          r.number(".group_segment_fixed_size"),
		Scratch:      r.number(".private_segment_fixed_size"),
		WaveSize:     r.number(".wavefront_size"),
		MaxThreads:   r.number(".max_flat_workgroup_size"),
		KernargBytes: r.number(".kernarg_segment_size"),
	}
	if _, ok := m[".agpr_count"]; ok { // only GPUs that have them
		k.AGPRs = r.number(".agpr_count")
	}
	for _, a := range r.maps(".args") {
		r.in = a
		k.Args = append(k.Args, Arg{Offset: r.number(".offset"), Size: r.number(".size"),
			Kind: r.text(".value_kind")})
	}
	return k
}

// reader takes values from a map and keeps the first error.
type reader struct {
	in  map[string]any
	err error
}

func (r *reader) fail(key string) {
	if r.err == nil {
		r.err = fmt.Errorf("no valid %s", key)
	}
}

func (r *reader) text(key string) string {
	s, ok := r.in[key].(string)
	if !ok {
		r.fail(key)
	}
	return s
}

func (r *reader) number(key string) int {
	n, ok := r.in[key].(int)
	if !ok || n < 0 {
		r.fail(key)
		return 0
	}
	return n
}

func (r *reader) maps(key string) (all []map[string]any) {
	list, ok := r.in[key].([]any)
	if !ok {
		r.fail(key)
	}
	for _, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			r.fail(key)
			return nil
		}
		all = append(all, m)
	}
	return all
}
