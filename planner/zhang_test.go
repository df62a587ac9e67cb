package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInitialTile(t *testing.T) {
	cases := []struct {
		m, n int
		want string
	}{
		{64, 64, "large"}, {128, 256, "large"}, // divisible: Eq 10 itself
		{32, 64, "medium-large"}, {96, 32, "medium"}, {16, 32, "small-medium"}, {16, 16, "small"},
		{48, 64, "small-medium"}, // 32 and 64 rows do not divide 48
		{100, 100, "small"},      // 112x112 pads least
		{60, 60, "medium"},       // 64x64 with every tile that fits: the largest one
		{5, 500, "small"},        // none fits
	}
	var p builder
	require.NoError(t, p.model.set(device(t, "mi210"), arithmetic{compute: ComputeF32}, false, only{}))
	for _, c := range cases {
		q := GEMM(c.m, c.n, 64)
		require.Equal(t, c.want, p.model.tiles[p.initialTile(p.zhangTiles(), &q)].shape.Name, "%dx%d", c.m,
			c.n)
	}
}

func TestZhangDemotesWhileBelowThreshold(t *testing.T) {
	d := device(t, "mi210")
	few := mustPack(t, GEMM(256, 256, 64))
	choice := func(b Batch, o Options) string {
		o.Rule = RuleZhang2025
		p, err := New(d).Plan(t.Context(), b, o)
		require.NoError(t, err)
		return p.Tiles[0].Name
	}
	// 16 tiles of 256 threads: 4096 threads, then 32, 64, 128, 256 workgroups.
	for _, c := range []struct {
		threshold float64
		want      string
	}{
		{1, "large"}, {4096, "large"}, {4097, "medium-large"}, {8192, "medium-large"},
		{8193, "small-medium"}, {16384, "small-medium"}, {16385, "small"}, {1e9, "small"},
	} {
		require.Equal(t, c.want, choice(few, Options{TLP: 3, Threshold: c.threshold}), "threshold %g",
			c.threshold)
		require.Equal(t, c.want, choice(few, Options{TLP: 4, Threshold: c.threshold}), "threshold %g",
			c.threshold)
	}
	require.Equal(t, "small", choice(few, Options{}), "the device's own threshold")

	// With more workgroups than fit, Eq 3 counts them all and Eq 4 only the active ones.
	many := mustPack(t, GEMM(6400, 6400, 64))
	require.Equal(t, "large", choice(many, Options{TLP: 3, Threshold: 1e6}))
	require.NotEqual(t, "large", choice(many, Options{TLP: 4, Threshold: 1e6}))

	_, err := New(d).Plan(t.Context(), few, Options{Rule: RuleZhang2025, TLP: 5})
	require.EqualError(t, err, "unknown TLP equation 5 (known: 3, 4)")
}
