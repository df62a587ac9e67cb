package native

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/batchgemm/batchgemm/native/codeobject"
	"github.com/batchgemm/batchgemm/planner"
)

// ErrUnknownArch: there is no code for an AMD GPU. Code objects run on the very
// architecture that they are made for.
var ErrUnknownArch = errors.New("no code for this GPU")

// hipArchs are the architectures of scripts/hip.sh and the functions that unpack
// their code objects, once.
var hipArchs = func() map[string]func() (*hipObject, error) {
	m := map[string]func() (*hipObject, error){}
	for _, arch := range []string{"gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100"} {
		m[arch] = sync.OnceValues(func() (*hipObject, error) { return loadHIP(arch) })
	}
	return m
}()

// hipObject is a code object and what it says of its kernels.
type hipObject struct {
	code    []byte
	kernels map[string]*codeobject.Kernel
}

func loadHIP(arch string) (*hipObject, error) {
	code, _, err := image(arch + ".co")
	if err != nil {
		return nil, err
	}
	meta, err := codeobject.Read(code)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", arch, err)
	}
	o := &hipObject{code, map[string]*codeobject.Kernel{}}
	for i := range meta.Kernels {
		o.kernels[meta.Kernels[i].Name] = &meta.Kernels[i]
	}
	return o, nil
}

// hipObjectOf finds the code object for a GPU. Settings behind the name of the
// architecture, as in "gfx90a:sramecc+:xnack-", do not matter: the code suits all.
func hipObjectOf(gfx string) (*hipObject, error) {
	arch, _, _ := strings.Cut(gfx, ":")
	load, ok := hipArchs[arch]
	if !ok {
		return nil, fmt.Errorf("%w: %q (there is for %s)", ErrUnknownArch, gfx, strings.Join(HIPArchs(), ", "))
	}
	return load()
}

// HIPArchs lists the architectures of AMD GPUs that there is code for.
func HIPArchs() []string {
	var all []string
	for arch := range hipArchs {
		all = append(all, arch)
	}
	slices.Sort(all)
	return all
}

// HIPImage returns the code object of all kernels for an AMD GPU, which
// hipModuleLoadData takes. gfx is its architecture as gcnArchName has it. The code
// is shared: callers must not write to it. It fails with ErrUnknownArch.
func HIPImage(gfx string) (code []byte, err error) {
	o, err := hipObjectOf(gfx)
	if err != nil {
		return nil, err
	}
	return o.code, nil
}

// HIPKernel names the symbol that carries out a kernel on an AMD GPU, the one for
// matrix cores where there is one, and says what it takes of a compute unit.
func HIPKernel(k planner.Kernel, gfx string) (name string, r planner.Resources, err error) {
	o, err := hipObjectOf(gfx)
	if err != nil {
		return "", r, err
	}
	name = MatrixKernelName(k)
	meta, ok := o.kernels[name]
	if !ok {
		name = KernelName(k)
		if meta, ok = o.kernels[name]; !ok {
			return "", r, fmt.Errorf("no kernel %s for %s in the products", name, gfx)
		}
	}
	return name, hipResources(meta), nil
}

// hipResources takes what the planner counts. Where vector and accumulation
// registers are files of their own (gfx908), the fuller one decides.
func hipResources(k *codeobject.Kernel) planner.Resources {
	return planner.Resources{Registers: max(k.VGPRs, k.AGPRs), ScalarRegisters: k.SGPRs, Shared: k.LDS}
}
