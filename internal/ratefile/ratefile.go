// Package ratefile keeps the kernel rates that were measured on a device in the
// user's cache directory, a file for each device:
//
//	<cache>/batchgemm/rates-<backend>-<device>.json
package ratefile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/atomicfile"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/ownrates"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// DirEnv is the environment variable with the directory of the files, in place of batchgemm in the user's
// cache directory. If it is empty or "off", no file is read or written.
const DirEnv = "BATCHGEMM_CACHE"

// version is that of the file, and of the model that gives its numbers a meaning.
const version = 1

// content is the content of a file. Rates are relative to the three facts of the device.
type content struct {
	Version      int       `json:"version"`
	Backend      string    `json:"backend"`
	Device       string    `json:"device"`
	Driver       string    `json:"driver"` // for the reader
	Date         time.Time `json:"date"`   // for the reader
	ComputeUnits int       `json:"compute_units"`
	TFLOPS       float64   `json:"tflops"`
	LaunchMicros float64   `json:"launch_micros"`

	Tiles map[string]row `json:"tiles"` // by name
	TF32  map[string]row `json:"tf32,omitempty"`
}

// row is a rate with its shape: a name may outlive a shape.
type row struct {
	Shape string `json:"shape"`
	tile.Rate
}

// header returns a file for a device, without rates.
func header(info *driver.Info) content {
	p := &info.Planner
	return content{Version: version, Backend: info.Backend, Device: info.Name, Driver: info.Driver,
		ComputeUnits: p.ComputeUnits, TFLOPS: p.TFLOPS, LaunchMicros: p.LaunchMicros}
}

// errOff: the environment turns files off.
var errOff = errors.New(DirEnv + " turns files of measured rates off")

// unfit: a file name cannot have it on every system.
func unfit(r rune) bool {
	return r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// longestName leaves room for the rest of a file name of 255 bytes.
const longestName = 120

// Locate returns the path of a device's file of a kind, "rates" here, or why there can be none.
func Locate(kind string, info *driver.Info) (string, error) {
	dir, set := os.LookupEnv(DirEnv)
	switch {
	case set && (dir == "" || dir == "off"):
		return "", errOff
	case !set:
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "batchgemm")
	}
	name := strings.Trim(strings.Join(strings.FieldsFunc(info.Backend+"-"+info.Name, unfit), "-"), "-.")
	return filepath.Join(dir, kind+"-"+name[:min(len(name), longestName)]+".json"), nil
}

// Load returns the facts of the device with the rates that were measured on it. Without a file it returns
// the unchanged facts; with an unusable file it also returns an error. It is safe for concurrent use, also
// with Save in another process.
func Load(info *driver.Info) (planner.Device, error) {
	path, err := Locate("rates", info)
	if err != nil {
		return info.Planner, nil // no directory, no file
	}
	data, err := Read(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return info.Planner, nil
	}
	if err != nil {
		return info.Planner, err
	}
	tuned, err := parse(info, data)
	if err != nil {
		return info.Planner, fmt.Errorf("%s: %w", path, err)
	}
	return *tuned, nil
}

// maxSize is about ten times the largest file, which has a row for every tile and mode.
const maxSize = 64 << 10

// Read reads a file that may be anything: a pipe without a writer, or an endless device. It fails for more
// than that many bytes.
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path) // before opening it, which would wait for a pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s: larger than %d bytes, which no such file is", path, most)
	}
	return data, err
}

// decode reads a file of any device.
func decode(data []byte) (*content, error) {
	var f content
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if f.Version != version {
		return nil, fmt.Errorf("version %d, this program reads %d", f.Version, version)
	}
	return &f, nil
}

func parse(info *driver.Info, data []byte) (*planner.Device, error) {
	f, err := decode(data)
	if err != nil {
		return nil, err
	}
	want := header(info)
	switch {
	case f.Backend != want.Backend || f.Device != want.Device:
		return nil, fmt.Errorf("of another device, %s: %s", f.Backend, f.Device)
	case f.ComputeUnits != want.ComputeUnits, f.TFLOPS != want.TFLOPS, f.LaunchMicros != want.LaunchMicros:
		return nil, fmt.Errorf(
			"relative to %d compute units, %g TFLOPS and %g us a launch, the device now has %d, %g and %g",
			f.ComputeUnits, f.TFLOPS, f.LaunchMicros, want.ComputeUnits, want.TFLOPS, want.LaunchMicros)
	}
	return f.tune(ownrates.Without(&info.Planner))
}

// Parse reads a file of any GPU. The returned device has the rates of all shapes, but no facts for plans.
func Parse(data []byte) (*planner.Device, error) {
	f, err := decode(data)
	if err != nil {
		return nil, err
	}
	d := &planner.Device{Name: f.Device, KernelKind: encoding.KernelsNative,
		ComputeUnits: f.ComputeUnits, TFLOPS: f.TFLOPS, LaunchMicros: f.LaunchMicros}
	if f.Backend == "webgpu" {
		d.KernelKind = encoding.KernelsWGSL
	}
	for _, s := range tile.Table() {
		d.Kernels = append(d.Kernels, planner.KernelFacts{Tile: s})
	}
	return f.tune(d)
}

// tune returns the device with the file's rates of tiles that it has.
func (f *content) tune(d *planner.Device) (*planner.Device, error) {
	if err := f.rates(d); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if !ownrates.Has(d) {
		return nil, errors.New("knows none of the tiles")
	}
	return d, nil
}

// rates adds the file's rows of tiles that the device has.
func (f *content) rates(d *planner.Device) (err error) {
	f.visit(d, func(shape *tile.Shape, c planner.Compute, rate *tile.Rate, rows map[string]row) {
		if r, known := rows[shape.Name]; known && r.Shape == shape.Size() {
			*rate = r.Rate
			err = cmp.Or(err, r.Rate.Check(shape, c == planner.ComputeTF32, d.PeakGuessed))
		}
	})
	return err
}

// visitor gets a rate, its place in the device, and its part of the file.
type visitor func(s *tile.Shape, c planner.Compute, place *tile.Rate, rows map[string]row)

// visit visits all rates.
func (f *content) visit(d *planner.Device, do visitor) {
	for i := range d.Kernels {
		k := &d.Kernels[i]
		do(k.Tile, planner.ComputeF32Emulated, k.Measured(planner.ComputeF32Emulated), f.Tiles)
		if k.Tile.Unit.Tensor() { // otherwise it is the same rate again
			do(k.Tile, planner.ComputeTF32, k.Measured(planner.ComputeTF32), f.TF32)
		}
	}
}

// File is the file of a device, to be saved or closed. It is not safe for concurrent use.
type File struct {
	Path string
	info *driver.Info
	*atomicfile.File
}

// Create opens the device's file, so that a place without write permission is known before any measurement.
// An older file stays until Save.
func Create(info *driver.Info) (*File, error) {
	path, err := Locate("rates", info)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	return &File{path, info, f}, nil
}

// Save writes the rates that were measured on a device at a date.
func (f *File) Save(d *planner.Device, date time.Time) error {
	c := header(f.info)
	c.Date = date.UTC().Truncate(time.Second)
	c.Tiles, c.TF32 = map[string]row{}, map[string]row{}
	c.visit(d, func(shape *tile.Shape, _ planner.Compute, rate *tile.Rate, rows map[string]row) {
		if *rate != (tile.Rate{}) {
			rows[shape.Name] = row{shape.Size(), *rate}
		}
	})
	e := json.NewEncoder(f)
	e.SetIndent("", "  ")
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return f.Commit()
}
