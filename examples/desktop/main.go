// Desktop shows what an application does that must run on any user's machine:
// list the devices, let the user pick one, and keep it busy frame after frame
// without planning or allocating. It needs no window, so it runs headless too.
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
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
)

func main() {
	backend := flag.String("backend", "", "backend to use (default: the best one)")
	index := flag.Int("device", 0, "device of the backend")
	frames := flag.Int("frames", 20, "frames to compute")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *backend, *index, *frames); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, backend string, index, frames int) error {
	backends, err := dispatch.Devices(ctx)
	if err != nil {
		return err
	}
	for _, l := range backends {
		if l.Err != nil {
			fmt.Printf("%-7s %v\n", l.Backend, l.Err)
		}
		for _, d := range l.Devices {
			fmt.Printf("%-7s %d: %s (%s), subgroup %s\n", l.Backend, d.Index, d.Name, d.Driver, d.Subgroup)
		}
	}
	var options []dispatch.Option
	if backend != "" {
		options = append(options, dispatch.WithBackend(backend), dispatch.WithDevice(index))
	}
	dev, err := dispatch.Open(ctx, options...)
	if err != nil {
		return err
	}
	defer dev.Close()
	fmt.Printf("using %s: %s\n", dev.Info().Backend, dev.Info().Name)

	// The bones of 40 figures of different sizes: small matrices, all different.
	rng := rand.New(rand.NewPCG(1, 1))
	problems := make([]planner.Problem, 40)
	for i := range problems {
		problems[i] = planner.GEMM(8+rng.IntN(56), 8+rng.IntN(56), 8+rng.IntN(56))
	}
	batch, err := planner.Pack(problems...)
	if err != nil {
		return err
	}
	plan, err := dev.Plan(batch, planner.Options{})
	if err != nil {
		return err
	}
	program, err := dev.Prepare(ctx, plan)
	if err != nil {
		return err
	}
	lenA, lenB, lenC := batch.Extent()
	var buffers [3]*dispatch.Buffer
	for i, n := range []int{lenA, lenB, lenC} {
		if buffers[i], err = dev.NewBuffer(n); err != nil {
			return err
		}
		data := make([]float32, n)
		for j := range data {
			data[j] = rng.Float32()
		}
		if err := buffers[i].Write(ctx, 0, data); err != nil {
			return err
		}
	}
	start := time.Now()
	for range frames {
		if err := program.Run(ctx, buffers[0], buffers[1], buffers[2]); err != nil {
			return err
		}
	}
	if err := dev.Wait(ctx); err != nil {
		return err
	}
	wall := time.Since(start) / time.Duration(max(frames, 1))
	timing, err := dev.Time(ctx, dispatch.Run{Program: program, A: buffers[0], B: buffers[1], C: buffers[2]})
	if err != nil {
		return err
	}
	fmt.Printf("%d products a frame: %v wall, %v on the device (%s clock), %.3g GFLOP/s\n",
		len(batch), wall.Round(time.Microsecond), timing.Device.Round(time.Microsecond), timing.Clock, batch.FLOPs()/timing.Device.Seconds()/1e9)
	return nil
}
