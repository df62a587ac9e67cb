// Desktop is a program with a window that computes on any user's machine. A mixture of small networks paints
// a new picture for each frame, on the device that the user chooses from a menu. The window never waits: not
// for kernels, not for results, and not when the device changes. The folder paint computes, and this folder
// draws.
//
// On such machines a GPU can disappear: its driver crashes, hangs or is updated, or a laptop switches it
// off. Calls then return dispatch.ErrDeviceLost. The painter closes the device and opens it again, or opens
// another device. The flag -lose 100 shows that. On macOS and Windows the WebGPU binding ends the process
// instead. If that must not happen, compute in another process.
package main

import (
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/hajimehoshi/ebiten/v2"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/examples/desktop/paint"
)

func main() {
	adapter := flag.String("adapter", "", "ID of the device to begin with (default: the best one)")
	pictures := flag.Int("pictures", 0, "end after so many pictures (default: when the window is closed)")
	shots := flag.String("shots", "", "folder for the window as half.png and end.png, after half of the "+
		"pictures and all")
	lose := flag.Int("lose", 0, "lose the device after so many pictures, each time it is opened; that of "+
		"BATCHGEMM_BACKEND, or the CPU")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unknown argument %q", flag.Arg(0))
	}
	var options []dispatch.Option
	if *lose > 0 {
		options = append(options, dispatch.WithDriver(paint.Unplugged{Driver: backend(), After: *lose}))
	}
	if err := run(*adapter, *pictures, *shots, options); err != nil {
		log.Fatal(err)
	}
}

// backend returns the backend that the user selected, or the last one, which always exists.
func backend() driver.Driver {
	all := dispatch.Backends()
	at := slices.IndexFunc(all, func(d driver.Driver) bool {
		return d.Name() == os.Getenv("BATCHGEMM_BACKEND")
	})
	if at < 0 {
		at = len(all) - 1
	}
	return all[at]
}

func run(adapter string, pictures int, shots string, options []dispatch.Option) error {
	painter := paint.Start(adapter, options...)
	defer painter.Close()
	w, err := newWindow(painter)
	if err != nil {
		return err
	}
	w.last, w.shots = pictures, shots
	ebiten.SetWindowSize(windowWidth, windowHeight)
	ebiten.SetWindowTitle("batchgemm: a mixture of painters")
	ebiten.SetWindowResizingMode(ebiten.WindowResizingModeEnabled)
	if err := ebiten.RunGame(w); err != nil {
		return err
	}
	s := painter.State()
	fmt.Printf("%d pictures; opened %d times, lost %d times\n", s.Pictures, s.Opened, s.Losses)
	fmt.Printf("frames: %v\npictures: %v\n", &w.frames, &w.took)
	return w.failed
}

// save writes the window to a file.
func save(screen *ebiten.Image, folder, name string) (err error) {
	picture := image.NewRGBA(screen.Bounds())
	screen.ReadPixels(picture.Pix)
	file, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return png.Encode(file, picture)
}
