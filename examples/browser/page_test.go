// Package browser tests the page: Chromium acts like a visitor.
package browser

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/browser"
	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner/element"
)

// serve builds the page like make browser, and serves it.
func serve(t *testing.T) (address, dir string) {
	t.Helper()
	dir, server := t.TempDir(), filepath.Join(t.TempDir(), "serve")
	for _, command := range [][]string{{"../../scripts/page.sh", dir},
		{"go", "build", "-o", server, "./serve"}} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	cmd := exec.CommandContext(t.Context(), server, "-address", "localhost:0", dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // it is killed with the context
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.Fields(line)[0], dir
}

// visit is a page in a browser.
type visit struct {
	*browser.Page
	t *testing.T
}

func open(t *testing.T, address string, flags []string) visit {
	t.Helper()
	executable, err := browser.Find()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	p, err := browser.Open(ctx, executable, flags, address)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	v := visit{p, t}
	v.wait(`globalThis.document?.getElementById("run")`)
	return v
}

func (v visit) wait(condition string) {
	v.t.Helper()
	require.NoError(v.t, v.Wait(condition))
}

// text returns what an element shows.
func (v visit) text(id string) (text string) {
	v.t.Helper()
	require.NoError(v.t, v.Eval(`document.getElementById("`+id+`").innerText`, &text))
	return text
}

func (v visit) do(method string, params any) {
	v.t.Helper()
	require.NoError(v.t, v.Do(method, params, nil))
}

// choose sets fields of the form, like a visitor.
func (v visit) choose(fields map[string]string) {
	v.t.Helper()
	text, err := json.Marshal(fields)
	require.NoError(v.t, err)
	require.NoError(v.t, v.Eval(`for (const [name, value] of Object.entries(`+string(text)+`))
			form.elements[name].value = value;
		form.dispatchEvent(new Event("change"))`, nil))
}

const idle = `!document.getElementById("run").disabled || !document.getElementById("error").hidden`

// planned waits for the plan.
func (v visit) planned() {
	v.t.Helper()
	v.wait(idle)
	require.Empty(v.t, v.text("error"))
	require.Contains(v.t, v.text("status"), "Planned ")
}

// run presses the button, waits for results of a batch and verifies all of them.
func (v visit) run() {
	v.t.Helper()
	v.runs("one dispatch per problem", "a naive kernel")
}

// runs is run for any rivals.
func (v visit) runs(rivals ...string) {
	v.t.Helper()
	require.NoError(v.t, v.Eval(`document.getElementById("run").click()`, nil))
	v.wait(idle)
	require.Empty(v.t, v.text("error"))
	require.Contains(v.t, v.text("status"), "all results are verified")
	verified := "(?s)^batchgemm.*✓ float64"
	for _, rival := range rivals {
		verified += ".*" + rival + ".*✓ float64"
	}
	require.Regexp(v.t, verified+"$", v.text("rows"))
}

// stop ends a run by keys. The batch can then run again.
func (v visit) stop() {
	v.t.Helper()
	v.wait(`document.getElementById("status").classList.contains("busy")`)
	require.NoError(v.t, v.Eval(`form.elements.backend.focus()`, nil))
	require.NoError(v.t, v.Press("Tab"))
	var id string
	require.NoError(v.t, v.Eval(`document.activeElement.id`, &id))
	require.Equal(v.t, "stop", id)
	require.NoError(v.t, v.Press("Enter"))
	v.wait(`document.getElementById("status").textContent.startsWith("Stopped. ")`)
	v.planned()
	var ready bool
	require.NoError(v.t, v.Eval(`document.getElementById("stop").disabled && `+
		`!document.getElementById("run").disabled && document.getElementById("results").hidden`, &ready))
	require.True(v.t, ready)
}

// drawn returns the number of colours of a canvas.
func (v visit) drawn(id string) (colours int) {
	v.t.Helper()
	require.NoError(v.t, v.Eval(`(() => {
		const c = document.getElementById("`+id+`");
		const pixels = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		return new Set(new Uint32Array(pixels.buffer)).size;
	})()`, &colours))
	return colours
}

// shoot saves a picture of the whole page if BATCHGEMM_SCREENSHOTS names a directory.
func (v visit) shoot(name string) {
	v.t.Helper()
	dir := os.Getenv("BATCHGEMM_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	require.NoError(v.t, v.Do("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot))
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(v.t, err)
	require.NoError(v.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}

// layer is run for a layer of experts.
func (v visit) layer() {
	v.t.Helper()
	v.choose(map[string]string{"kind": "layer", "tokens": "12", "experts": "4", "top": "5", "hidden": "24",
		"intermediate": "20", "skew": "1"})
	v.wait(`document.getElementById("error").innerText.includes("cannot have 5 of 4 experts")`)
	v.choose(map[string]string{"top": "2"})
	v.planned()
	require.Contains(v.t, v.text("status"), "Planned a layer of experts")
	require.Regexp(v.t, `(?s)of 4.*Rows\s*24\s`, v.text("facts"))
	var drawn bool
	require.NoError(v.t, v.Eval(`document.getElementById("timeline").checkVisibility()`, &drawn))
	require.False(v.t, drawn)
	v.runs("routing on the host")
	require.Contains(v.t, v.text("verdict"), " times as fast as routing on the host.")
}

// small is a batch for which the software adapter needs few kernels.
var small = map[string]string{"kind": "random", "batch": "4", "mn": "32", "depth": "32"}

func TestPage(t *testing.T) {
	if _, err := browser.Find(); err != nil && !browser.Required() {
		t.Skip(err)
	}
	sample.Examples.Skip(t, 1)
	address, dir := serve(t)

	t.Run("WebGPU", func(t *testing.T) { testGPU(t, open(t, address, browser.WebGPU())) })
	t.Run("CPU", func(t *testing.T) {
		testCPU(t, open(t, address, []string{"--disable-features=WebGPU", "--disable-gpu"}))
	})
	t.Run("size", func(t *testing.T) {
		require.LessOrEqual(t, compressed(t, filepath.Join(dir, "batchgemm.wasm")), 6_000_000)
	})
}

// testGPU: a batch is planned, drawn, run on WebGPU and verified.
func testGPU(t *testing.T, v visit) {
	v.planned()
	var backend string
	require.NoError(t, v.Eval(`form.elements.backend.value`, &backend))
	require.Equal(t, "webgpu", backend)
	require.NotContains(t, v.text("device"), "There is no WebGPU")
	require.NoError(t, v.Eval(`document.getElementById("run").click()`, nil))
	v.stop()
	require.NoError(t, v.Eval(`document.getElementById("run").click()`, nil))
	v.choose(small) // ends that run
	v.planned()
	require.Contains(t, v.text("status"), "Planned 4 problems")
	require.Contains(t, v.text("legend"), "0: ")
	require.Greater(t, v.drawn("tiles"), 4)
	require.Greater(t, v.drawn("timeline"), 4)
	v.run()
	require.Contains(t, v.text("method"), "Median of 5 samples")
	v.shoot("webgpu")
	v.layer()
	v.shoot("webgpu-layer")
	require.Empty(t, v.Logged)
}

// testCPU: without WebGPU the page says so, and does everything on the CPU.
func testCPU(t *testing.T, v visit) {
	v.planned()
	require.Contains(t, v.text("device"), "Runs on the CPU in WebAssembly")
	require.Contains(t, v.text("device"), "There is no WebGPU here: ")
	v.choose(small)
	v.planned()
	v.run()
	v.layer()
	testFile(t, v)
	testLate(t, v)
	testWrong(t, v)
	testKeyboard(t, v)
	testStop(t, v)
	testPhone(t, v)
	require.Empty(t, v.Logged)
}

// testFile: matrices of a file are chosen and multiplied, or dropped.
func testFile(t *testing.T, v visit) {
	path := filepath.Join(t.TempDir(), "two.npz")
	w, err := npz.Create(path)
	require.NoError(t, err)
	defer w.Close()
	for _, a := range []struct {
		name       string
		rows, cols int
	}{{"A0", 3, 5}, {"B0", 5, 2}, {"C0", 3, 2}, {"A1", 20, 4}, {"B1", 4, 7}} {
		require.NoError(t, w.Write(a.name, element.F32, a.rows, a.cols, make([]float32, a.rows*a.cols)))
	}
	require.NoError(t, w.Commit())
	v.choose(map[string]string{"kind": "file"})
	v.wait(`document.getElementById("status").textContent.includes("Choose a .npz file")`)
	v.give(path)
	v.wait(`document.getElementById("legend").innerText.includes("3 × 2 × 5")`)
	v.planned()
	require.Contains(t, v.text("status"), "Planned 2 problems")
	v.run()

	v.choose(small)
	v.planned()
	require.NoError(t, v.Eval(`(() => {
		const dataTransfer = new DataTransfer();
		dataTransfer.items.add(form.elements.file.files[0]);
		dispatchEvent(new DragEvent("drop", {dataTransfer}));
	})()`, nil))
	v.wait(`document.getElementById("legend").innerText.includes("3 × 2 × 5")`)
	v.planned()
}

// testLate: if another batch is chosen while a file is being read, the file is not planned.
func testLate(t *testing.T, v visit) {
	require.NoError(t, v.Eval(`(() => {
		const whole = Blob.prototype.arrayBuffer;
		Blob.prototype.arrayBuffer = () => new Promise((resolve) => globalThis.read = () => {
			Blob.prototype.arrayBuffer = whole;
			resolve(new ArrayBuffer(0));
		});
	})()`, nil))
	v.choose(map[string]string{"kind": "file"})
	v.choose(small)
	v.planned()
	require.NoError(t, v.Eval(`read()`, nil))
	v.run()
}

// give chooses a file in the form.
func (v visit) give(path string) {
	v.t.Helper()
	var found struct{ Result struct{ ObjectID string } }
	require.NoError(v.t, v.Do("Runtime.evaluate", map[string]any{"expression": `form.elements.file`}, &found))
	v.do("DOM.setFileInputFiles", map[string]any{"files": []string{path}, "objectId": found.Result.ObjectID})
}

// testWrong: mistakes in a choice are shown, and disappear with the next choice.
func testWrong(t *testing.T, v visit) {
	path := filepath.Join(t.TempDir(), "wrong.npz")
	require.NoError(t, os.WriteFile(path, []byte("PK, but no archive"), 0o600))
	v.give(path)
	v.wait(`document.getElementById("error").innerText.includes("wrong.npz: ")`)
	v.choose(map[string]string{"kind": "random", "mn": "1"})
	v.wait(`document.getElementById("error").innerText.includes("outside of its limits")`)
	v.choose(small)
	v.planned()
}

// testKeyboard: Tab reaches all controls, and keys operate them.
func testKeyboard(t *testing.T, v visit) {
	require.NoError(t, v.Eval(`document.activeElement.blur()`, nil))
	reached := map[string]bool{}
	for range 30 {
		require.NoError(t, v.Press("Tab"))
		var id string
		require.NoError(t, v.Eval(`document.activeElement.name || document.activeElement.id`, &id))
		reached[id] = true
		switch id {
		case "timeline":
			require.NoError(t, v.Press("ArrowRight"))
			require.Contains(t, v.text("picked"), "Problem ")
		case "run":
			require.NoError(t, v.Press("Enter"))
			v.wait(`!document.getElementById("results").hidden`)
		}
	}
	for _, id := range []string{"kind", "batch", "mn", "depth", "seed", "backend", "run",
		"tiles", "timeline"} {
		require.True(t, reached[id], id)
	}
	var unnamed int
	require.NoError(t, v.Eval(`[...document.querySelectorAll("input, select")].filter((e) => `+
		`!e.labels.length).length`, &unnamed))
	require.Zero(t, unnamed)
}

// testStop: a run that would take the CPU minutes ends at once, and others can follow.
func testStop(t *testing.T, v visit) {
	v.choose(map[string]string{"kind": "random", "batch": "8", "mn": "1024", "depth": "4096"})
	v.planned()
	require.NoError(t, v.Eval(`document.getElementById("run").click()`, nil))
	v.wait(`document.getElementById("status").textContent.includes("running once")`)
	v.stop()
	v.choose(small)
	v.planned()
	v.run()
}

// testPhone: nothing is wider than a phone, and dark pages are dark.
func testPhone(t *testing.T, v visit) {
	v.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844,
		"deviceScaleFactor": 2, "mobile": true})
	for _, c := range []struct{ name, paper string }{{"light", "rgb(244, 246, 249)"},
		{"dark", "rgb(14, 19, 26)"}} {
		v.do("Emulation.setEmulatedMedia",
			map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
				"value": c.name}}})
		var paper string
		require.NoError(t, v.Eval(`getComputedStyle(document.body).backgroundColor`, &paper))
		require.Equal(t, c.paper, paper)
		for _, kind := range []string{"inception", "moe", "layer", "file", "random"} {
			v.choose(map[string]string{"kind": kind})
			v.fits()
		}
		v.planned()
		v.fits()
		v.shoot("phone-" + c.name)
	}
	v.run()
	v.fits()
	v.shoot("phone-results")
}

// fits checks that nothing is wider than a phone.
func (v visit) fits() {
	v.t.Helper()
	var width int
	require.NoError(v.t, v.Eval(`document.documentElement.scrollWidth`, &width))
	require.LessOrEqual(v.t, width, 390)
}

// compressed returns the size of a file as servers send it.
func compressed(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var size counter
	z := gzip.NewWriter(&size)
	_, err = io.Copy(z, f)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return int(size)
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
