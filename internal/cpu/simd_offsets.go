//go:build amd64 || arm64

package cpu

import "unsafe"

// Assembly reads micro by these offsets, which the generator also has.
var (
	_ [24]struct{}  = [unsafe.Offsetof(micro{}.sum)]struct{}{}
	_ [80]struct{}  = [unsafe.Offsetof(micro{}.wide)]struct{}{}
	_ [92]struct{}  = [unsafe.Offsetof(micro{}.beta)]struct{}{}
	_ [96]struct{}  = [unsafe.Offsetof(micro{}.fetch)]struct{}{}
	_ [128]struct{} = [unsafe.Offsetof(micro{}.ahead)]struct{}{}
	_ [144]struct{} = [unsafe.Offsetof(micro{}.beta64)]struct{}{}
	_ [24]struct{}  = [unsafe.Offsetof(tiles{}.sum)]struct{}{}
	_ [48]struct{}  = [unsafe.Offsetof(tiles{}.more)]struct{}{}
	_ [72]struct{}  = [unsafe.Offsetof(tiles{}.rowSum)]struct{}{}
	_ [48]struct{}  = [unsafe.Offsetof(along{}.sum)]struct{}{}
	_ [64]struct{}  = [unsafe.Offsetof(along{}.more)]struct{}{}
	_ [64]struct{}  = [unsafe.Sizeof(tileConfig{})]struct{}{}
	_ [32]struct{}  = [unsafe.Offsetof(panel{}.cols)]struct{}{}
	_ [48]struct{}  = [unsafe.Offsetof(few{}.step)]struct{}{}
	_ [80]struct{}  = [unsafe.Offsetof(few{}.count)]struct{}{}
	_ [112]struct{} = [unsafe.Offsetof(few{}.scales)]struct{}{}
	_ [40]struct{}  = [unsafe.Offsetof(panel{}.groups)]struct{}{}
	_ [56]struct{}  = [unsafe.Offsetof(panel{}.scales)]struct{}{}
)
