// Desktop is what an application does that draws frames and must run on any user's machine: it
// lists the devices, opens the one that the user chose before, and computes a network of two
// layers, of other sizes each time, while frames go on. The thread that draws waits for nothing. It
// needs no window, so it runs headless too, and says at the end how long that thread was kept.
//
// On such machines a GPU can go away: its driver crashes, hangs or is updated, or a
// laptop switches it off. Calls then return dispatch.ErrDeviceLost; close the device
// and open one again, the CPU if need be. On macOS and Windows the WebGPU binding
// ends the process instead: where that must not happen, compute in another process.
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
)

func main() {
	adapter := flag.String("adapter", "", "ID of the device to use (default: the best one)")
	power := flag.String("power", "", "low or high: prefer integrated or discrete GPUs")
	frames := flag.Int("frames", 60, "frames to draw")
	rate := flag.Int("rate", 60, "frames a second")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	device, err := open(ctx, *adapter, dispatch.Power(*power))
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	if err := draw(ctx, device, *frames, time.Second/time.Duration(*rate)); err != nil {
		log.Fatal(err)
	}
}

// open opens the device of an ID that the application kept among its settings, or the best.
func open(ctx context.Context, id string, power dispatch.Power) (*dispatch.Device, error) {
	device, err := dispatch.Open(ctx, dispatch.WithPower(power), dispatch.WithAdapter(func(all []dispatch.Info) int {
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

// draw is the loop of frames. In each it looks whether a result is there, shows the last one, and
// starts the next computation when there is none.
func draw(ctx context.Context, device *dispatch.Device, frames int, period time.Duration) error {
	net, err := newNetwork(ctx, device)
	if err != nil {
		return err
	}
	var kept []time.Duration // how long each frame kept the thread
	var reading *dispatch.Reading
	shown := 0
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for frame := range frames {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		start := time.Now()
		if reading != nil && ended(reading) {
			if reading.Err() != nil {
				return reading.Err()
			}
			shown++ // net.result has what is to be drawn
			reading = nil
		}
		if reading == nil {
			if reading, err = net.start(ctx, frame); err != nil {
				return err
			}
		}
		kept = append(kept, time.Since(start))
	}
	<-reading.Done() // it writes to memory of net
	report(kept, shown)
	return reading.Err()
}

// ended looks without waiting.
func ended(r *dispatch.Reading) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

func report(kept []time.Duration, shown int) {
	slices.Sort(kept)
	fmt.Printf("%d frames, %d results; the thread that draws was kept for %v (median), %v (99 of 100), %v at most\n",
		len(kept), shown, kept[len(kept)/2], kept[len(kept)*99/100], kept[len(kept)-1])
}
