//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/wgsl"
)

// pipeline is a compiled kernel.
type pipeline struct {
	kernel
	pieces   uint32 // workgroups for each worker
	bindings []encoding.Binding
	ran      uint64 // the submission of compileAndRun; 0: none
}

// pipeline returns a kernel's pipeline, which is kept until the device is closed. Most drivers compile it at
// this point, in 0.05 to 0.3 s; for others see compileAndRun.
func (d *device) pipeline(k encoding.Kernel) (*pipeline, error) {
	if p := d.pipelines[k]; p != nil {
		return p, nil
	}
	p, err := d.render(k)
	if err == nil {
		d.pipelines[k] = p
	}
	return p, err
}

// render makes the pipeline of a kernel, or finds it: without a transposed A, for example, loads of 16 bytes
// change the text of few kernels.
func (d *device) render(k encoding.Kernel) (*pipeline, error) {
	s, err := wgsl.Render(k, d.shader)
	if err != nil {
		return nil, err
	}
	if p := d.texts[s.Source]; p != nil {
		return p, nil
	}
	p, err := d.compile(s)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k, err)
	}
	if same := d.texts[s.Source]; same != nil { // a browser compiles several at once
		p.free()
		return same, nil
	}
	d.texts[s.Source] = p
	return p, nil
}

// Text implements backend.Compiler.
func (d *device) Text(k encoding.Kernel) (string, error) {
	s, err := wgsl.Render(k, d.shader)
	return s.Source, err
}

// compile makes a pipeline. It checks what go-webgpu does not check. go-webgpu crashes on an empty source
// and on a shader without bindings, and some compilers never end if a shader has too much workgroup memory.
func (d *device) compile(s wgsl.Shader) (*pipeline, error) {
	switch {
	case len(s.Bindings) == 0:
		return nil, errors.New("webgpu: the shader has no bindings")
	case s.Threads > d.shader.Threads:
		return nil, fmt.Errorf("webgpu: the shader has %d threads, the device allows %d", s.Threads,
			d.shader.Threads)
	case s.SharedBytes > d.shader.SharedBytes:
		return nil, fmt.Errorf("webgpu: the shader has %d bytes of workgroup memory, the device allows %d",
			s.SharedBytes, d.shader.SharedBytes)
	}
	if d.spoil != nil {
		s.Source = d.spoil(s.Source)
	}
	k, err := d.makeKernel(s.Source)
	if err != nil {
		return nil, err
	}
	return &pipeline{kernel: k, pieces: uint32(max(s.Pieces, 1)), bindings: s.Bindings}, nil
}

// compiled reports whether a kernel is ready.
func (d *device) compiled(k encoding.Kernel) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pipelines[k]
	return p != nil && p.ran > 0 && p.ran <= d.finished()
}

// compileAndRun makes a kernel's pipeline and waits for a run without workgroups: some drivers, such as
// lavapipe, compile on first use.
func (d *device) compileAndRun(ctx context.Context, k encoding.Kernel) error {
	if d.compiled(k) {
		return ctx.Err()
	}
	if err := d.lockQueue(ctx); err != nil {
		return err
	}
	p, err := d.pipeline(k)
	if err == nil && p.ran == 0 {
		err = d.submitEmpty(p)
	}
	if err != nil {
		d.mu.Unlock()
		return err
	}
	ran := p.ran
	d.mu.Unlock()
	return d.await(ctx, ran)
}

// ready returns a kernel's pipeline, compiled. On software adapters it runs the pipeline once for that. GPUs
// compile pipelines when they are made, so it does not wait for queued work there.
func (d *device) ready(ctx context.Context, k encoding.Kernel) (*pipeline, error) {
	if d.info.Kind == hardware.KindSoftware {
		if err := d.compileAndRun(ctx, k); err != nil {
			return nil, err
		}
	}
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return d.pipeline(k)
}

// compileMissing compiles the kernels that a plan needs on software adapters, which take longest: several at
// once, also beside those of another plan. See Compile. Errors show again where a launch takes its kernel.
func (d *device) compileMissing(ctx context.Context, plan *planner.Plan) {
	if d.info.Kind != hardware.KindSoftware {
		return
	}
	var missing []encoding.Kernel
	for i := range plan.Launches {
		if k := plan.Launches[i].Kernel; !d.compiled(k) && !slices.Contains(missing, k) {
			missing = append(missing, k)
		}
	}
	if len(missing) > 0 {
		_ = d.Compile(ctx, missing, func(int) {})
	}
}

// submitEmpty runs a pipeline on buffers that it does not touch.
func (d *device) submitEmpty(p *pipeline) error {
	of := bound{pipeline: p}
	for _, b := range p.bindings {
		to := d.dummy
		if b.Written { // so it is bound once
			made, err := d.scratchFor(b.Number)
			if err != nil {
				return err
			}
			to = made
		}
		of.at[b.Number] = window{to, span{0, to.size}}
	}
	g, err := d.makeGroup(of)
	if err != nil {
		return err
	}
	defer g.Release()
	d.work.reset()
	d.work.list = append(d.work.list, p.dispatch(g, 0))
	if err := d.submit(move{}); err != nil {
		return err
	}
	p.ran = d.submitted
	return nil
}

// scratchFor returns a buffer for a binding that a shader may write.
func (d *device) scratchFor(binding int) (*buffer, error) {
	if b := d.scratch[binding]; b != nil {
		return b, nil
	}
	b, err := d.alloc(4)
	if err == nil {
		d.scratch[binding] = b
	}
	return b, err
}
