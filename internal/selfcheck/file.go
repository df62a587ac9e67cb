package selfcheck

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/atomicfile"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/planner"
)

// Results are those of all checks on a device with a driver, which a file keeps beside the device's rates.
// Its methods, except Refused, are safe for concurrent use.
type Results struct {
	device backend.Compiler
	info   driver.Info

	mu      sync.Mutex
	content content
	changed bool
}

// content is the content of the file. It says nothing of another driver, or of other texts.
type content struct {
	Version int      `json:"version"`
	Backend string   `json:"backend"`
	Device  string   `json:"device"`
	Driver  string   `json:"driver"`
	Right   []string `json:"right"` // hashes of the texts of groups
	Wrong   []Record `json:"wrong,omitempty"`
}

// Record is a group of kernels that was wrong.
type Record struct {
	Text          string                `json:"text"`
	Tile          string                `json:"tile"`
	Options       planner.Options       `json:"options"`
	Transposition planner.Transposition `json:"transposition,omitzero"`
	Wrong
}

const (
	fileKind    = "checks"
	fileVersion = 1
	fileBytes   = 1 << 20
	// mostRight bounds the file. After more, groups are checked anew.
	mostRight = 8192
)

// Load returns the results of a device. A file that cannot be used counts as none.
func Load(d backend.Compiler) *Results {
	r := &Results{device: d, info: d.Info()}
	r.content = content{Version: fileVersion, Backend: r.info.Backend, Device: r.info.Name,
		Driver: r.info.Driver}
	path, err := ratefile.Locate(fileKind, &r.info)
	if err != nil {
		return r
	}
	var kept content
	data, err := ratefile.Read(path, fileBytes)
	if err == nil && json.Unmarshal(data, &kept) == nil && len(kept.Right) < mostRight {
		if want := r.content; kept.Version == want.Version && kept.Backend == want.Backend &&
			kept.Device == want.Device && kept.Driver == want.Driver {
			r.content = kept
		}
	}
	return r
}

// text returns a hash of the texts of a group, "" if there is none.
func (r *Results) text(c *Case) string {
	h := fnv.New128a()
	for _, k := range c.Group.Kernels {
		text, err := r.device.Text(k)
		if err != nil {
			return ""
		}
		h.Write([]byte(text))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Known returns what a check of a group found, on this driver and for this text.
func (r *Results) Known(c *Case) (wrong *Wrong, known bool) {
	text := r.text(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.content.Wrong {
		if r.content.Wrong[i].Text == text {
			return &r.content.Wrong[i].Wrong, true
		}
	}
	return nil, slices.Contains(r.content.Right, text)
}

// Add adds what a check found: nil, or what is wrong.
func (r *Results) Add(c *Case, wrong *Wrong) {
	text := r.text(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = true
	same := func(other string) bool { return other == text }
	r.content.Right = slices.DeleteFunc(r.content.Right, same)
	r.content.Wrong = slices.DeleteFunc(r.content.Wrong, func(w Record) bool { return same(w.Text) })
	if wrong == nil {
		r.content.Right = append(r.content.Right, text)
		return
	}
	r.content.Wrong = append(r.content.Wrong, Record{text, c.Tile().Name, c.Options, c.Transposition, *wrong})
}

// Refused returns the groups that were wrong, as far as their texts are still the same.
func (r *Results) Refused(p *planner.Planner) (groups []planner.KernelGroup) {
	for i := range r.content.Wrong {
		w := &r.content.Wrong[i]
		for _, few := range []bool{true, false} {
			all, err := p.Kernels(w.Options, w.Transposition, few)
			if err != nil {
				continue
			}
			for _, g := range all {
				c := Case{w.Options, w.Transposition, g}
				if g.Kernels[0].Tile.Name == w.Tile && r.text(&c) == w.Text {
					groups = append(groups, g)
				}
			}
		}
	}
	return groups
}

// Save writes the file if there is anything new. Without a directory for it, nothing is kept.
func (r *Results) Save() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	path, err := ratefile.Locate(fileKind, &r.info)
	if err != nil || !r.changed {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	e := json.NewEncoder(f)
	e.SetIndent("", " ")
	if err := e.Encode(r.content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.changed = false
	return f.Commit()
}
