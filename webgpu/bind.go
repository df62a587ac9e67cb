//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// operands are the operands of an image of a program.
type operands struct {
	image   int
	buffers buffers
}

// buffers are those of a run: A, B and C; the sizes, if the plan is ragged; and B2, Bias and Rows, if its
// epilogue has them.
type buffers [7]part

// part is a buffer or a slice of one. Slices of the same elements are equal parts.
type part struct {
	*buffer         // with the memory; nil: none
	at, size uint64 // bytes
}

// part returns the part of memory that b is.
func (b *buffer) part() part {
	if b == nil {
		return part{}
	}
	return part{b.whole(), b.at, b.size}
}

// sizesBuffer is the index of the sizes.
const sizesBuffer = 3

// bindings are the dispatches for one set of operands.
type bindings struct {
	groups []group
	list   []dispatch
	plan   uint64 // plan of the program to which they belong
}

// group is a bind group with what it was made of.
type group struct {
	handle bindGroup
	of     bound
}

// bound is what a launch is bound to. Consecutive plans often share it.
type bound struct {
	pipeline *pipeline
	at       [encoding.Bindings]window // by binding
}

// window is a part of a buffer, or nothing if that is nil.
type window struct {
	buffer *buffer
	span
}

func newSets() *backend.Cache[operands, bindings] { return backend.NewCache[operands](bindings.free) }

// free releases the bind groups. No work being recorded may use them. For queued work, the library keeps
// what it needs.
func (s bindings) free() {
	for _, g := range s.groups {
		g.handle.Release()
	}
}

// unbind drops all bind groups.
func (p *program) unbind() {
	p.sets.Clear()
	for i := range p.images {
		p.images[i].making.free()
		p.images[i].making = bindings{}
	}
}

// forget drops the bind groups that hold a buffer.
func (p *program) forget(b *buffer) {
	p.sets.Drop(func(o operands) bool {
		return slices.ContainsFunc(o.buffers[:], func(x part) bool { return x.buffer == b })
	})
}

// bind returns the program's dispatches for these operands, for the work being
// recorded.
func (p *program) bind(buffers buffers) (*bindings, error) {
	d, o := p.dev, operands{p.now, buffers}
	s := p.sets.Get(o, d.recording)
	if s == nil {
		if !p.sets.Room(d.recording - 1) {
			d.work.over = append(d.work.over, p)
		}
		s = p.sets.Put(o, bindings{}, d.recording)
	}
	if s.plan == p.plans {
		return s, nil
	}
	m := &p.images[p.now]
	if err := p.rebind(s, m, m.launches[m.makers:], buffers); err != nil {
		p.sets.Drop(func(other operands) bool { return other == o })
		return nil, err
	}
	s.plan = p.plans
	return s, nil
}

// rebind makes s the bindings of an image's launches. It keeps bind groups that do not change.
func (p *program) rebind(s *bindings, m *image, launches []launch, buffers buffers) error {
	for len(s.groups) > len(launches) {
		last := len(s.groups) - 1
		s.groups[last].handle.Release()
		s.groups = s.groups[:last]
	}
	s.list = s.list[:0]
	for i := range launches {
		l := &launches[i]
		of, err := p.boundTo(m, l, buffers)
		if err == nil && (i == len(s.groups) || s.groups[i].of != of) {
			err = s.group(p.dev, i, of)
		}
		if err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
		s.list = append(s.list, l.pipeline.dispatch(s.groups[i].handle, l.Count))
	}
	return nil
}

// group makes bind group i, in place of an old one if there is one.
func (s *bindings) group(d *device, i int, of bound) error {
	g, err := d.makeGroup(of)
	if err != nil {
		return err
	}
	if i < len(s.groups) {
		s.groups[i].handle.Release()
		s.groups[i] = group{g, of}
	} else {
		s.groups = append(s.groups, group{g, of})
	}
	return nil
}

// boundTo returns what a launch is bound to: the buffers that its shader declares.
func (p *program) boundTo(m *image, l *launch, buffers buffers) (of bound, err error) {
	d := p.dev
	of.pipeline = l.pipeline
	operands := [encoding.Bindings]struct {
		name       string
		buffer     part
		of         element.Type
		base, span int
	}{
		encoding.BindA:     {"A", buffers[0], l.TypeA, l.BaseA, l.SpanA},
		encoding.BindB:     {"B", buffers[1], l.TypeB(), l.BaseB, l.SpanB},
		encoding.BindC:     {"C", buffers[2], l.TypeC, l.BaseC, l.SpanC},
		encoding.BindSizes: {"sizes", buffers[sizesBuffer], element.F32, 0, l.sizes},
		encoding.BindB2:    {"B2", buffers[4], l.TypeB(), l.BaseB2, l.SpanB2},
		encoding.BindBias:  {"Bias", buffers[5], l.TypeC, 0, l.SpanBias},
		encoding.BindRows:  {"Rows", buffers[6], element.F32, 0, l.SpanRows},
	}
	for _, b := range l.pipeline.bindings {
		at := &of.at[b.Number]
		switch b.Number {
		case encoding.BindItems:
			*at = window{m.words, l.items}
			if l.made { // their lengths change with each plan
				at.size = min(m.words.size-l.items.offset, d.binding)
			}
		case encoding.BindTable:
			if *at = (window{m.words, l.table}); l.Dynamic {
				at.buffer = m.turns
			}
		case encoding.BindWorkspace:
			*at = window{p.workspace, span{0, p.workspace.size}}
		default:
			x := &operands[b.Number]
			if *at, err = d.window(x.buffer, x.of, x.base, x.span); err != nil {
				return of, fmt.Errorf("%s: %w", x.name, err)
			}
		}
	}
	return of, nil
}

// window returns what a launch reaches of an operand: all of it if a binding can hold that, otherwise the
// given elements. Without elements it is the dummy.
func (d *device) window(p part, of element.Type, base, elements int) (window, error) {
	if elements == 0 {
		return window{d.dummy, span{0, d.dummy.size}}, nil
	}
	if base == 0 && p.size <= d.binding {
		return window{p.buffer, span{p.at, p.size}}, nil
	}
	s := span{p.at + uint64(of.Size(base)), roundUp(uint64(of.Size(elements)), 16)}
	align := uint64(d.limits.MinStorageBufferOffsetAlignment)
	if s.size > d.binding || s.offset+s.size > p.at+p.size || s.offset%align != 0 {
		return window{}, invalid.Errorf("webgpu: bytes [%d, %d) of a buffer of %d do not make a binding "+
			"(limit %d bytes, from multiples of %d on)",
			s.offset, s.offset+s.size, p.at+p.size, d.binding, align)
	}
	return window{p.buffer, s}, nil
}
