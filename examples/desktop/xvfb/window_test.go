// Package xvfb tests the program in a window that nobody sees: under Xvfb, an X server without a
// screen, where Mesa draws. It is a package of its own because what imports the library for windows
// ends at once where there is no screen.
package xvfb

import (
	"bufio"
	"context"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parts of the window, inside of their edges.
var (
	picture = image.Rect(20, 20, 650, 430)
	bars    = image.Rect(674, 114, 958, 170)
	graph   = image.Rect(674, 210, 958, 306)
	menu    = image.Rect(690, 378, 958, 404) // its first entry
)

// TestWindow skips where there is no Xvfb, but not where BATCHGEMM_REQUIRE has "window".
func TestWindow(t *testing.T) {
	if _, err := exec.LookPath("Xvfb"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("BATCHGEMM_REQUIRE"), ","), "window") {
			t.Fatal(err)
		}
		t.Skipf("windows are not tested (apt-get install xvfb): %v", err)
	}
	program := filepath.Join(t.TempDir(), "desktop")
	out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput()
	require.NoError(t, err, "%s", out)
	display := startScreen(t)
	for _, tc := range []struct {
		name, printed string
		args          []string
	}{
		{"undisturbed", ` pictures, 0 losses of a device; the last on cpu`, []string{"-pictures", "12"}},
		{"loses its device", ` pictures, [1-9][0-9]* losses of a device; the last on cpu`, []string{"-pictures", "12", "-lose", "8"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(program, append(tc.args, "-shots", dir)...)
			cmd.Env = append(os.Environ(), "DISPLAY="+display, "BATCHGEMM_BACKEND=cpu", "BATCHGEMM_CACHE=off")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Regexp(t, tc.printed, string(out))
			half, end := load(t, dir, "half.png"), load(t, dir, "end.png")
			for _, shot := range []image.Image{half, end} {
				require.Greater(t, len(colours(shot, picture)), 1000, "the picture is dull")
				require.Greater(t, len(colours(shot, bars)), 4, "bars of few networks")
				require.Greater(t, colours(shot, graph)[color.RGBA{247, 178, 89, 255}], 10, "no line of pictures in the graph")
				require.Greater(t, len(colours(shot, menu)), 10, "nothing in the menu")
			}
			require.Greater(t, changed(half, end, picture), 0.5, "the picture stands still")
			require.Greater(t, changed(half, end, graph), 0.01, "the graph stands still")
		})
	}
}

// startScreen returns the name of a display that ends with the test.
func startScreen(t *testing.T) string {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "Xvfb", "-displayfd", "3", "-screen", "0", "1024x640x24", "-nolisten", "tcp")
	cmd.ExtraFiles = []*os.File{write}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it removes its lock
	err = cmd.Start()
	write.Close()
	require.NoError(t, err)
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
	})
	number, err := bufio.NewReader(read).ReadString('\n') // when it is ready
	require.NoError(t, err, "Xvfb did not start")
	return ":" + strings.TrimSpace(number)
}

func load(t *testing.T, dir, name string) image.Image {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, name))
	require.NoError(t, err)
	defer file.Close()
	shot, err := png.Decode(file)
	require.NoError(t, err)
	return shot
}

// colours counts the points of each colour.
func colours(shot image.Image, area image.Rectangle) map[color.Color]int {
	count := map[color.Color]int{}
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[shot.At(x, y)]++
		}
	}
	return count
}

// changed is the part of the points that differ.
func changed(a, b image.Image, area image.Rectangle) float64 {
	n := 0
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			if a.At(x, y) != b.At(x, y) {
				n++
			}
		}
	}
	return float64(n) / float64(area.Dx()*area.Dy())
}
