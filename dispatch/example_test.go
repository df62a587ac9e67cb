package dispatch_test

import (
	"context"
	"fmt"
	"log"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// open opens the CPU, which every machine has. Without the option, Open takes the best device.
func open(ctx context.Context) *dispatch.Device {
	device, err := dispatch.Open(ctx, dispatch.WithBackend("cpu"))
	check(err)
	return device
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Two products of different sizes in one call.
func Example() {
	ctx := context.Background()
	device, err := dispatch.Open(ctx) // the best device
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	a := []dispatch.Dense[float32]{{Rows: 2, Cols: 2, Data: []float32{1, 2, 3, 4}},
		{Rows: 1, Cols: 1, Data: []float32{10}}}
	b := []dispatch.Dense[float32]{{Rows: 2, Cols: 1, Data: []float32{1, 1}},
		{Rows: 1, Cols: 2, Data: []float32{1, 2}}}
	c, err := dispatch.Multiply(ctx, device, a, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c[0].Data, c[1].Data)
	// Output: [3 7] [10 20]
}

// A batch in three slices: Pack says where each matrix lies.
func ExampleGEMM() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	batch, err := planner.Pack(
		planner.GEMM(2, 2, 3), // 2x3 times 3x2
		planner.GEMM(1, 3, 1), // 1x1 times 1x3
	)
	check(err)
	// Pack starts each matrix at a multiple of four elements.
	a := []float32{1, 2, 3, 4, 5, 6, 0, 0, 10}
	b := []float32{1, 0, 0, 1, 1, 1, 0, 0, 1, 2, 3}
	c := make([]float32, 7)
	check(dispatch.GEMM(ctx, device, batch, planner.Options{},
		dispatch.Slices[float32, float32]{A: a, B: b, C: c}))
	fmt.Println(c[:4], c[4:])
	// Output: [4 5 10 11] [10 20 30]
}

// A layer of a network: a bias for each column, and negative results become 0.
func ExampleGEMM_epilogue() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	batch, err := planner.Pack(planner.GEMM(2, 2, 3))
	check(err)
	layer := dispatch.Slices[float32, float32]{
		A: []float32{1, 2, 3, 4, 5, 6}, B: []float32{1, 0, 0, 1, 1, 1}, C: make([]float32, 4),
		Bias: []float32{-4, -7}, // for each column; batch[0].Bias is its first element
	}
	options := planner.Options{Epilogue: planner.Epilogue{Bias: true, Activation: planner.ReLU}}
	check(dispatch.GEMM(ctx, device, batch, options, layer))
	fmt.Println(layer.C)
	// Output: [0 0 6 4]
}

// Rows of A by a list of row indices, and a weight for each.
func ExampleGEMM_gather() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	a := []float32{1, 1, 2, 2, 3, 3} // 3 x 2
	var lists planner.Rows
	batch := planner.Batch{{M: 2, N: 1, K: 2,
		A: planner.Matrix{LD: 2}, B: planner.Matrix{LD: 1}, C: planner.Matrix{LD: 1},
		RowsA:   lists.Indices([]int32{2, 0}),
		Weights: lists.Numbers([]float32{0.5, 10}),
	}}
	options := planner.Options{Epilogue: planner.Epilogue{GatherRows: 3, Weights: true}}
	x := dispatch.Slices[float32, float32]{A: a, B: []float32{1, 1}, C: make([]float32, 2), Rows: lists}
	check(dispatch.GEMM(ctx, device, batch, options, x))
	fmt.Println(x.C)
	// Output: [3 20]
}

// Numbers of bf16, with sums in float32.
func ExampleGEMM_bfloat16() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	batch, err := planner.Pack(planner.GEMM(1, 1, 2))
	check(err)
	a := []element.BFloat16{element.Nearest[element.BFloat16](1), element.Nearest[element.BFloat16](256)}
	b := []element.BFloat16{element.Nearest[element.BFloat16](1), element.Nearest[element.BFloat16](1)}
	exact, rounded := make([]float32, 1), make([]element.BFloat16, 1)
	check(dispatch.GEMM(ctx, device, batch, planner.Options{},
		dispatch.Slices[element.BFloat16, float32]{A: a, B: b, C: exact}))
	check(dispatch.GEMM(ctx, device, batch, planner.Options{},
		dispatch.Slices[element.BFloat16, element.BFloat16]{A: a, B: b, C: rounded}))
	fmt.Println(exact[0], rounded[0].Float32())
	// Output: 257 256
}

// Operands that stay on the device. Plan and program are made once, and runs queue up without waiting.
func ExampleProgram_Run() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close() // closes buffers and programs too

	step := planner.GEMM(2, 2, 2)
	step.Beta = 1 // C = A*B + C
	batch, err := planner.Pack(step)
	check(err)
	plan, err := device.Plan(ctx, batch, planner.Options{})
	check(err)
	program, err := device.Prepare(ctx, plan)
	check(err)
	a, err := dispatch.Upload(ctx, device, []float32{1, 2, 3, 4})
	check(err)
	b, err := dispatch.Upload(ctx, device, []float32{1, 0, 0, 1})
	check(err)
	c, err := dispatch.Upload(ctx, device, make([]float32, 4))
	check(err)
	for range 10 {
		check(program.Run(ctx, dispatch.Operands{A: a, B: b, C: c}))
	}
	sums := make([]float32, 4)
	check(dispatch.Read(ctx, c, 0, sums)) // waits for the runs
	fmt.Println(sums)
	// Output: [10 20 30 40]
}

// A loop of frames with changing sizes. No frame waits for the device.
func ExampleProgram_Update() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	plan, err := device.Plan(ctx, nil, planner.Options{})
	check(err)
	program, err := device.Prepare(ctx, plan)
	check(err)
	x, err := dispatch.Upload(ctx, device, []float32{1, 2, 3, 4})
	check(err)
	y, err := device.NewBuffer(element.F32, 4)
	check(err)
	shown := make([]float32, 4)
	for frame := 1; frame <= 2; frame++ {
		batch, err := planner.Pack(planner.GEMM(frame, frame, 2))
		check(err)
		check(program.Update(ctx, batch))
		check(program.Run(ctx, dispatch.Operands{A: x, B: x, C: y}))
		reading := dispatch.ReadAsync(ctx, y, 0, shown[:frame*frame])
		<-reading.Done() // a program with a window would draw meanwhile
		check(reading.Err())
		fmt.Println(shown[:frame*frame])
	}
	// Output:
	// [5]
	// [7 10 15 22]
}

// A layer of experts. A router assigns rows of x to them, and only the device knows how many each gets.
func ExampleDevice_PrepareRagged() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	const experts, rows, n, k = 2, 3, 1, 2 // rows of all experts together, at most
	var lists planner.Rows                 // a kernel of the router may write them on the device
	program, err := device.PrepareRagged(ctx, planner.Ragged{
		Form: planner.EndsOfRows, Groups: experts, M: rows, N: n, K: k,
		A: planner.Matrix{LD: k}, B: planner.Matrix{LD: n}, C: planner.Matrix{LD: n}, StrideB: k * n,
		RowsA:   lists.Indices([]int32{2, 0, 1}), // row 2 for the first expert, rows 0 and 1 for the second
		Weights: lists.Numbers([]float32{1, 0.5, 0.5}),
	}, planner.Options{Epilogue: planner.Epilogue{GatherRows: rows, Weights: true}})
	check(err)
	routing, err := dispatch.Upload(ctx, device, lists)
	check(err)
	ends, err := dispatch.Upload(ctx, device, []int32{1, 3})
	check(err)

	x, err := dispatch.Upload(ctx, device, []float32{1, 1, 2, 2, 3, 3})
	check(err)
	w, err := dispatch.Upload(ctx, device, []float32{1, 1, 10, 10})
	check(err)
	y, err := device.NewBuffer(element.F32, rows)
	check(err)
	check(program.Run(ctx, dispatch.Operands{A: x, B: w, C: y, Rows: routing, Sizes: ends}))
	result := make([]float32, rows)
	check(dispatch.Read(ctx, y, 0, result))
	fmt.Println(result, program.Status(ctx))
	// Output: [6 10 20] <nil>
}

// A layer of experts, from the router's choices on: token 0 goes to expert 1, token 1 to expert 0.
func ExampleDevice_PrepareExperts() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	layer, err := device.PrepareExperts(ctx, planner.Experts{
		Choices: planner.Choices{Tokens: 2, TopK: 1, Experts: 2},
		Hidden:  2, Intermediate: 1, Activation: planner.ReLU}, planner.Options{})
	check(err)
	defer layer.Close()
	upload := func(values ...float32) *dispatch.Buffer {
		buffer, err := dispatch.Upload(ctx, device, values)
		check(err)
		return buffer
	}
	index, err := dispatch.Upload(ctx, device, []int32{1, 0})
	check(err)
	x := upload(1, 2, 3, 4)
	check(layer.Run(ctx, dispatch.ExpertOperands{X: x, Y: x, Index: index, Weights: upload(1, 0.5),
		GateUp: upload(1, 1, 0, 1), Down: upload(1, 10, 1, 0)}))
	y := make([]float32, 4)
	check(dispatch.Read(ctx, x, 0, y))
	fmt.Println(y)
	// Output: [2 0 3.5 35]
}

// Two layers in one submission: the second reads what the first wrote.
func ExampleDevice_Run() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	batch, err := planner.Pack(planner.GEMM(2, 2, 2))
	check(err)
	relu := planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU}}
	plan, err := device.Plan(ctx, batch, relu)
	check(err)
	layer, err := device.Prepare(ctx, plan)
	check(err)
	x, err := dispatch.Upload(ctx, device, []float32{1, 2, 3, 4})
	check(err)
	w, err := dispatch.Upload(ctx, device, []float32{1, -1, 0, 1})
	check(err)
	h, err := device.NewBuffer(element.F32, 4)
	check(err)
	y, err := device.NewBuffer(element.F32, 4)
	check(err)
	check(device.Run(ctx,
		layer.With(dispatch.Operands{A: x, B: w, C: h}),
		layer.With(dispatch.Operands{A: h, B: w, C: y})))
	result := make([]float32, 4)
	check(dispatch.Read(ctx, y, 0, result))
	fmt.Println(result)
	// Output: [1 0 3 0]
}

// Weights of 4 bits, with a scale for each 64 k of a column, times numbers of bf16.
func Example_int4() {
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	const n, k, group = 2, 64, 64
	weights := make([]float32, n*k) // a row for each output
	for i := range k {
		weights[i], weights[k+i] = 1, -2
	}
	words := make([]uint32, k*element.Int4LD(n)/8)
	groups := make([]uint32, k/group*element.Int4LD(n))
	check(element.QuantizeInt4(words, groups, weights, n, k, group))
	var lists planner.Rows
	plan, err := device.Plan(ctx, planner.Batch{{M: 1, N: n, K: k, ScaleB: lists.Groups(groups),
		A: planner.Matrix{LD: k}, B: planner.Matrix{LD: element.Int4LD(n)}, C: planner.Matrix{LD: n}}},
		planner.Options{TypeA: element.BF16, TypeB: element.Int4, TypeC: element.F32,
			Epilogue: planner.Epilogue{ScaleB: planner.PerGroup64}})
	check(err)
	program, err := device.Prepare(ctx, plan)
	check(err)
	ones := make([]element.BFloat16, k)
	for i := range ones {
		ones[i] = element.Nearest[element.BFloat16](1)
	}
	a, err := dispatch.Upload(ctx, device, ones)
	check(err)
	b, err := device.NewBuffer(element.Int4, 8*len(words))
	check(err)
	check(dispatch.Write(ctx, b, 0, words))
	scales, err := dispatch.Upload(ctx, device, lists)
	check(err)
	c, err := device.NewBuffer(element.F32, n)
	check(err)
	check(program.Run(ctx, dispatch.Operands{A: a, B: b, C: c, Rows: scales}))
	sums := make([]float32, n)
	check(dispatch.Read(ctx, c, 0, sums))
	fmt.Println(sums)
	// Output: [64 -128]
}

// A 16-bit type of another package, such as float16.Float16 of github.com/x448/float16, is passed as bits.
func ExampleWrite_bits() {
	type Float16 uint16
	ctx := context.Background()
	device := open(ctx)
	defer device.Close()
	b, err := device.NewBuffer(element.F16, 2)
	check(err)
	check(dispatch.Write(ctx, b, 0, []Float16{0x3c00, 0xc000}))
	numbers := make([]element.Float16, 2)
	check(dispatch.Read(ctx, b, 0, numbers))
	fmt.Println(numbers[0].Float32(), numbers[1].Float32())
	// Output: 1 -2
}

// All GPUs of the machine, used as one.
func ExampleOpenAll() {
	ctx := context.Background()
	group, err := dispatch.OpenAll(ctx, dispatch.WithBackend("cpu")) // without the option: the best devices
	check(err)
	defer group.Close()
	batch, err := planner.Pack(planner.GEMM(1, 1, 3))
	check(err)
	c := make([]float32, 1)
	check(dispatch.GEMM(ctx, group, batch, planner.Options{},
		dispatch.Slices[float32, float32]{A: []float32{1, 2, 3}, B: []float32{4, 5, 6}, C: c}))
	fmt.Println(len(group.Devices()), "device:", c)
	// Output: 1 device: [32]
}
