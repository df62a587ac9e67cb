// Frames shows an application that draws frames and must run on any user's machine. It lists the devices,
// opens the device that the user chose earlier, and compiles its kernels. While it draws frames, it computes
// a network of two layers, with new sizes each time. The drawing thread never waits. The program has no
// window (examples/desktop has). At the end it reports how long that thread was busy, and how long results
// took.
//
// On such machines a GPU can disappear: its driver crashes, hangs or is updated, or a laptop switches it
// off. Calls then return dispatch.ErrDeviceLost. Close the device and open it again, or open the CPU. On
// macOS and Windows the WebGPU binding ends the process instead. If that must not happen, compute in another
// process.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
)

func main() {
	adapter := flag.String("adapter", "", "ID of the device to use (default: the best one)")
	power := flag.String("power", "", "low or high: prefer integrated or discrete GPUs")
	frames := flag.Int("frames", 60, "frames to draw")
	rate := flag.Int("rate", 60, "frames a second")
	changing := flag.Bool("changing", true, "other sizes in each frame")
	warm := flag.String("warm", "before", "when to compile all kernels: before, meanwhile or never")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	device, err := open(ctx, *adapter, *power)
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	switch *warm {
	case "before":
		if err := compile(ctx, device); err != nil {
			log.Fatal(err)
		}
	case "meanwhile":
		go compile(ctx, device) // ends with the device
	}
	if err := draw(ctx, device, *frames, time.Second/time.Duration(*rate), *changing); err != nil {
		log.Fatal(err)
	}
}

// compile compiles kernels. An application with a window would show a progress bar.
func compile(ctx context.Context, device *dispatch.Device) error {
	start, kernels, all := time.Now(), 0, 0
	err := device.Warm(ctx, dispatch.WarmOptions{
		Plans:    []planner.Options{relu, {}}, // those of the two layers
		Progress: func(ready, of int) { kernels, all = ready, of },
	})
	fmt.Printf("%d of %d kernels are ready after %v\n", kernels, all,
		time.Since(start).Round(time.Millisecond))
	return err
}

// open opens the device with an ID from the application's settings, or the best one.
func open(ctx context.Context, id string, power string) (*dispatch.Device, error) {
	device, err := dispatch.Open(ctx, dispatch.WithPower(power),
		dispatch.WithAdapter(func(all []dispatch.Info) int {
			for _, d := range all {
				fmt.Printf("%s: %s, %s, %s\n", d.ID, d.Name, d.Vendor, d.Kind)
			}
			return slices.IndexFunc(all, func(d dispatch.Info) bool { return d.ID == id })
		}))
	if err == nil {
		fmt.Printf("using %s; passed over: %v\n", device.Info().ID, device.Skipped())
	}
	return device, err
}

// draw is the loop of frames. In each frame it checks for a result, draws the last result, and starts the
// next computation if none is in progress.
func draw(ctx context.Context, device *dispatch.Device, frames int, period time.Duration,
	changing bool) error {
	net, err := newNetwork(ctx, device)
	if err != nil {
		return err
	}
	var kept, took times // of the thread in each frame, and of each result
	var reading *dispatch.Reading
	ended := make(chan time.Duration, 1)
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for range frames {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		start := time.Now()
		select {
		case after := <-ended:
			took = append(took, after)
			if reading.Err() != nil {
				return reading.Err()
			}
			reading = nil // net.result has what to draw
		default:
		}
		if reading == nil {
			if changing || len(took) == 0 {
				net.resize()
			}
			if reading, err = net.start(ctx, len(took)); err != nil {
				return err
			}
			go func(r *dispatch.Reading) {
				<-r.Done()
				ended <- time.Since(start)
			}(reading)
		}
		kept = append(kept, time.Since(start))
	}
	if reading != nil {
		took = append(took, <-ended) // it writes to memory of net
	}
	fmt.Printf("%d frames, %d results\n", len(kept), len(took))
	fmt.Print("the thread that draws was kept: ", kept, "from the start of a frame to its result: ", took)
	return nil
}

// times are shown as a histogram around their median.
type times []time.Duration

func (t times) String() string {
	sorted := slices.Sorted(slices.Values(t))
	n := len(sorted)
	if n == 0 {
		return "never\n"
	}
	median := sorted[n/2]
	text := fmt.Sprintf("%v (median), %v (99 of 100), %v at most\n", median, sorted[n*99/100], sorted[n-1])
	least := time.Duration(0)
	for _, up := range []float64{0.5, 0.75, 1, 1.25, 1.5, 2, 4, 8, 16, 1000} {
		most := time.Duration(up * float64(median))
		count := 0
		for _, d := range sorted {
			if d > least && d <= most {
				count++
			}
		}
		text += fmt.Sprintf("  up to %6.2f times the median: %5d\n", up, count)
		least = most
	}
	return text
}
