package native

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/native/internal/tiles"
	"github.com/batchgemm/batchgemm/planner"
)

// hipArchs are the architectures of scripts/hip.sh, and whether they have matrix
// cores. Code objects run on the very architecture that they are made for.
var hipArchs = map[string]bool{"gfx908": true, "gfx90a": true, "gfx942": true, "gfx1030": false, "gfx1100": false}

// HIPArch is an architecture of AMD GPUs that there is code for.
type HIPArch struct {
	name   string
	matrix bool
}

// LookupHIPArch finds the architecture of a GPU, which gfx is as gcnArchName has
// it. Settings behind the name, as in "gfx90a:sramecc+:xnack-", do not matter: the
// code suits all. It fails where there is no code.
func LookupHIPArch(gfx string) (HIPArch, error) {
	name, _, _ := strings.Cut(gfx, ":")
	matrix, ok := hipArchs[name]
	if !ok {
		known := slices.Sorted(maps.Keys(hipArchs))
		return HIPArch{}, fmt.Errorf("no code for this GPU: %q (there is for %s)", gfx, strings.Join(known, ", "))
	}
	return HIPArch{name, matrix}, nil
}

// Image returns the code object of all kernels, which hipModuleLoadData takes, and
// its name for messages.
func (a HIPArch) Image() (code []byte, kind string, err error) {
	code, _, err = image(a.name + ".co")
	return code, "code object for " + a.name, err
}

// KernelName is the symbol of a kernel in the code object. Where there are matrix
// cores, it is the one for them of a tile that suits them.
func (a HIPArch) KernelName(k planner.Kernel) string {
	if a.matrix && !k.Fixup && tiles.HasMatrix(k.Tile.Tile()) {
		return KernelName(k) + "_mfma"
	}
	return KernelName(k)
}
