// Package xvfb tests the program in an invisible window: under Xvfb, an X server without a screen, where
// Mesa draws. It is a separate package, because a program that imports the window library ends at once if
// there is no screen.
package xvfb

import (
	"bufio"
	"bytes"
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
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
	"github.com/stretchr/testify/require"
)

// Parts of the window, within their edges.
var (
	picture = image.Rect(20, 20, 650, 430)
	bars    = image.Rect(674, 114, 958, 170)
	graph   = image.Rect(674, 210, 958, 306)
	menu    = image.Rect(690, 378, 958, 404) // its first entry
)

// TestWindow skips without Xvfb, unless BATCHGEMM_REQUIRE has "window".
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
	for _, tc := range []struct {
		name, printed string
		args          []string
		input         *input // at half of the time
	}{
		{"clicks on its device", "; opened 2 times, lost 0 times", nil, &input{xproto.ButtonPress, 1}},
		{"presses its number", "; opened 2 times, lost 0 times", nil, &input{xproto.KeyPress, 10}},
		{"loses its device", "; opened [2-9] times, lost [1-9] times", []string{"-lose", "12"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			display, dir := startScreen(t), t.TempDir()
			var out bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program,
				append(tc.args, "-pictures", "20", "-shots", dir)...)
			cmd.Env = append(os.Environ(), "DISPLAY="+display, "BATCHGEMM_BACKEND=cpu", "BATCHGEMM_CACHE=off")
			cmd.Stdout, cmd.Stderr = &out, &out
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if tc.input != nil {
				awaitFile(t, filepath.Join(dir, "half.png"), ended)
				tc.input.send(t, display)
			}
			require.NoError(t, <-ended, &out)
			require.Regexp(t, tc.printed, out.String())
			requireShots(t, load(t, dir, "half.png"), load(t, dir, "end.png"))
		})
	}
}

// requireShots checks that all parts of the window exist, and move.
func requireShots(t *testing.T, half, end image.Image) {
	t.Helper()
	for _, shot := range []image.Image{half, end} {
		require.Greater(t, len(colours(shot, picture)), 1000, "the picture is dull")
		require.Greater(t, len(colours(shot, bars)), 4, "bars of few networks")
		// it crosses at least 12 columns
		require.Greater(t, amber(shot, graph), 10, "no line of pictures in the graph")
		require.Greater(t, len(colours(shot, menu)), 10, "nothing in the menu")
	}
	require.Greater(t, changed(half, end, picture), 0.5, "the picture stands still")
	require.Greater(t, changed(half, end, graph), 0.01, "the graph stands still")
}

// awaitFile returns when a file exists, or fails when the program ends before.
func awaitFile(t *testing.T, name string, ended <-chan error) {
	t.Helper()
	for {
		select {
		case err := <-ended:
			require.FailNow(t, "the program has ended", "%v", err)
		case <-time.After(10 * time.Millisecond):
		}
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
}

// input is a user's action: kind is the kind of event, and detail the number of a button or key.
type input struct{ kind, detail byte }

// send performs it, with the mouse on the first entry of the menu. The window fills the screen.
func (i input) send(t *testing.T, display string) {
	t.Helper()
	conn, err := xgb.NewConnDisplay(display)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, xtest.Init(conn))
	root, at := xproto.Setup(conn).DefaultScreen(conn).Root, menu.Min
	for _, e := range []input{{xproto.MotionNotify, 0}, i} {
		require.NoError(t, xtest.FakeInputChecked(conn, e.kind, e.detail, 0, root, int16(at.X),
			int16(at.Y), 0).Check())
	}
}

// startScreen returns the name of a display that ends with the test.
func startScreen(t *testing.T) string {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "Xvfb", "-displayfd", "3", "-screen", "0", "976x512x24",
		"-nolisten", "tcp")
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

// amber counts the points that lines of that colour cover by more than half.
func amber(shot image.Image, area image.Rectangle) int {
	count := 0
	for c, n := range colours(shot, area) {
		if r, _, b, _ := c.RGBA(); r > b && r > 0x8000 {
			count += n
		}
	}
	return count
}

// changed returns the share of points that differ.
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
