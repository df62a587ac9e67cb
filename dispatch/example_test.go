package dispatch_test

import (
	"context"
	"fmt"
	"log"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Two products of different sizes in one call.
func Example() {
	ctx := context.Background()
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu")) // without the option: the best there is
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()

	batch, err := planner.Pack(
		planner.GEMM(2, 2, 3), // 2x3 times 3x2
		planner.GEMM(1, 3, 1), // 1x1 times 1x3
	)
	if err != nil {
		log.Fatal(err)
	}
	// Pack starts each matrix at a multiple of four elements.
	a := []float32{1, 2, 3, 4, 5, 6, 0, 0, 10}
	b := []float32{1, 0, 0, 1, 1, 1, 0, 0, 1, 2, 3}
	c := make([]float32, 7)
	if err := device.GEMM(ctx, batch, planner.Options{}, a, b, c); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c[:4], c[4:])
	// Output: [4 5 10 11] [10 20 30]
}

// A layer of a network: a bias for each column, and what is negative becomes 0.
func ExampleGEMMOperands() {
	ctx := context.Background()
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	batch, err := planner.Pack(planner.GEMM(2, 2, 3))
	if err != nil {
		log.Fatal(err)
	}
	layer := dispatch.Operands[float32, float32]{
		A: []float32{1, 2, 3, 4, 5, 6}, B: []float32{1, 0, 0, 1, 1, 1}, C: make([]float32, 4),
		Bias: []float32{-4, -7}, // of columns; batch[0].Bias says where it begins
	}
	options := planner.Options{Epilogue: planner.Epilogue{Bias: true, Activation: planner.ReLU}}
	if err := dispatch.GEMMOperands(ctx, device, batch, options, layer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(layer.C)
	// Output: [0 0 6 4]
}

// Numbers of bf16, whose products are summed in float32.
func ExampleGEMMOf() {
	ctx := context.Background()
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	batch, err := planner.Pack(planner.GEMM(1, 1, 2))
	if err != nil {
		log.Fatal(err)
	}
	a := []element.BFloat16{element.NewBFloat16(1), element.NewBFloat16(256)}
	b := []element.BFloat16{element.NewBFloat16(1), element.NewBFloat16(1)}
	exact, rounded := make([]float32, 1), make([]element.BFloat16, 1)
	if err := dispatch.GEMMOf(ctx, device, batch, planner.Options{}, a, b, exact); err != nil {
		log.Fatal(err)
	}
	if err := dispatch.GEMMOf(ctx, device, batch, planner.Options{}, a, b, rounded); err != nil {
		log.Fatal(err)
	}
	fmt.Println(exact[0], rounded[0].Float32())
	// Output: 257 256
}

// Operands that stay on the device: the plan and its program are made once, and
// runs queue up without waiting.
func ExampleProgram_Run() {
	ctx := context.Background()
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu"))
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close() // closes buffers and programs too

	step := planner.GEMM(2, 2, 2)
	step.Beta = 1 // C = A*B + C
	batch, err := planner.Pack(step)
	if err != nil {
		log.Fatal(err)
	}
	plan, err := device.Plan(ctx, batch, planner.Options{})
	if err != nil {
		log.Fatal(err)
	}
	program, err := device.Prepare(ctx, plan)
	if err != nil {
		log.Fatal(err)
	}
	var buffers [3]*dispatch.Buffer
	for i, values := range [][]float32{{1, 2, 3, 4}, {1, 0, 0, 1}, {0, 0, 0, 0}} {
		if buffers[i], err = device.NewBuffer(len(values)); err != nil {
			log.Fatal(err)
		}
		if err := buffers[i].Write(ctx, 0, values); err != nil {
			log.Fatal(err)
		}
	}
	for range 10 {
		if err := program.Run(ctx, buffers[0], buffers[1], buffers[2]); err != nil {
			log.Fatal(err)
		}
	}
	c := make([]float32, 4)
	if err := buffers[2].Read(ctx, 0, c); err != nil { // waits for the runs
		log.Fatal(err)
	}
	fmt.Println(c)
	// Output: [10 20 30 40]
}

// All GPUs of the machine, used as one.
func ExampleOpenAll() {
	ctx := context.Background()
	group, err := dispatch.OpenAll(ctx, dispatch.WithBackend("cpu")) // without the option: the best there are
	if err != nil {
		log.Fatal(err)
	}
	defer group.Close()
	batch, err := planner.Pack(planner.GEMM(1, 1, 3))
	if err != nil {
		log.Fatal(err)
	}
	c := make([]float32, 1)
	if err := group.GEMM(ctx, batch, planner.Options{}, []float32{1, 2, 3}, []float32{4, 5, 6},
		c); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(group.Devices()), "device:", c)
	// Output: 1 device: [32]
}
