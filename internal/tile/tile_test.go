package tile

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// TestZhangTable3 reproduces the columns of Table 3 of Zhang et al. 2025.
func TestZhangTable3(t *testing.T) {
	zhang := []struct {
		name                string
		tm, tn, tk, threads int
		wcp, wdl            float64
	}{
		{"small", 16, 16, 16, 128, 2, 6},
		{"small-medium", 16, 32, 16, 128, 4, 10},
		{"medium", 32, 32, 16, 128, 8, 16},
		{"medium-large", 32, 64, 16, 256, 8, 14},
		{"large", 64, 64, 16, 256, 16, 24},
	}
	require.Len(t, zhang, 5)
	for i, want := range zhang {
		s := Table()[i]
		require.True(t, s.Zhang)
		require.Equal(t, want.name, s.Name)
		require.Equal(t, []int{want.tm, want.tn, want.tk}, []int{s.TM, s.TN, s.TK})
		require.Equal(t, want.threads, s.Threads)
		outputs, loads := float64(s.TM*s.TN), float64(s.StepBytes()/4)
		require.Equal(t, want.wcp, outputs/float64(s.Threads), "%s: Eq 1", s)
		require.Equal(t, want.wdl, (outputs+loads)/float64(s.Threads), "%s: Eq 2, the tile of C included", s)
		require.Equal(t, want.wcp, float64(s.RM*s.RN), "%s: a thread holds W_CP outputs", s)
	}
}

// rated lists the rates that a shape of a kind has.
func rated(s *Shape) []string {
	switch s.Kind {
	case fma:
		if s.Zhang {
			return []string{"WGSL", "Native", "CPU"}
		}
		return []string{"WGSL", "Native"}
	case simd:
		return []string{"CPU"}
	case mma, wgmma:
		return []string{"Native", "TF32", "Bits16", "Aligned16", "Bits8", "Aligned8"}
	case mmaNarrow:
		return []string{"Bits16", "Aligned16", "Bits8", "Aligned8"}
	case wgmmaSwapped:
		return []string{"Native", "TF32"}
	case wgmmaAligned:
		return []string{"Bits16", "Aligned16", "Aligned8"}
	case wgmmaBoxes:
		return []string{"Aligned16", "Aligned8"}
	case double, doubleBoxes:
		return []string{"Native"}
	}
	return []string{"Int4"}
}

// ratesOf lists the rates of a shape by name.
func ratesOf(s *Shape) (names []string) {
	v := reflect.ValueOf(s.Rates)
	for i := range v.NumField() {
		if r, isRate := v.Field(i).Interface().(Rate); isRate && r.Efficiency > 0 {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

// TestTable checks every row for what kernels and encodings rely on.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for i, s := range Table() {
		t.Run(s.Name, func(t *testing.T) {
			require.NoError(t, s.Check())
			require.False(t, names[s.Name])
			names[s.Name] = true
			found, err := ByName(s.Name)
			require.NoError(t, err)
			require.Same(t, s, found)
			require.Equal(t, i < 5, s.Zhang)
			require.Equal(t, s.Unit == WGMMA || s.Boxes, s.Shared > 0, "compilers know of others")
			require.Equal(t, rated(s), ratesOf(s))
			require.Equal(t, strings.HasPrefix(s.Name, "aligned-"), s.Aligned)
			require.True(t, s.Rates.Direct == 0 || s.Rates.Direct >= 1 && s.Rates.WGSL.Efficiency > 0)
			if s.Unit == FMA {
				require.LessOrEqual(t, s.StepBytes(), 16<<10, "fits WebGPU's default limit")
				require.LessOrEqual(t, s.Threads, 256, "fits WebGPU's default limit")
			}
			require.LessOrEqual(t, max(s.TM, s.TN), 1<<15, "rows and columns fit in 16 bits")
		})
	}
	_, err := ByName("huge")
	require.ErrorIs(t, err, invalid.Err)
	require.ErrorContains(t, err, `unknown tile "huge" (known: small, small-medium`)
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Shape)
		want string // after the name
	}{
		{"as it is", func(*Shape) {}, ""},
		{"no power of two", func(s *Shape) { s.TN = 48 }, "size 48 is no power of two in [4, 128]"},
		{"too large", func(s *Shape) { s.TM = 256 }, "size 256 is no power of two in [4, 128]"},
		{"no threads", func(s *Shape) { s.Threads = 0 }, "0 threads are not in [1, 1024]"},
		{"unknown kind", func(s *Shape) { s.Unit, s.Swapped = MMA, true },
			"no kernels are of the kind {Unit:mma NarrowOnly:false Int4Only:false Aligned:false " +
				"Swapped:true Boxes:false}"},
		{"no block", func(s *Shape) { s.RM = 0 }, "256 threads of 0 x 4 do not cover it evenly"},
		{"uneven block", func(s *Shape) { s.RM = 3 }, "256 threads of 3 x 4 do not cover it evenly"},
		{"too few threads", func(s *Shape) { s.Threads = 128 },
			"128 threads of 4 x 4 do not cover it evenly"},
		{"uneven K groups", func(s *Shape) { s.Threads, s.TK, s.RM, s.RN = 512, 4, 64, 4 },
			"512 threads of 64 x 4 do not cover it evenly"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ByName("large")
			require.NoError(t, err)
			changed := *s
			c.edit(&changed)
			if err := changed.Check(); c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, "tile large: "+c.want)
			}
		})
	}
}
