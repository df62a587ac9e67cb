// Wasm is the program of the page of examples/browser. It plans batches and layers of experts, runs them on
// the visitor's GPU or, in WebAssembly, on the CPU, and measures. It runs in a worker, so that the page stays
// responsive, and answers its messages (page/worker.js):
//
//	{id, call: "devices" | "plan" | "run", ...}  →  {id, state}..., {id, result} or {id, error}
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall/js"
)

// request is a message of the page.
type request struct {
	Call     string     `json:"call"`
	Backend  string     `json:"backend"`  // for plan
	Workload string     `json:"workload"` // for plan: a name, that of the file if there is content
	Layer    *layerForm `json:"layer"`    // for plan, in place of a workload
	content  []byte
}

func main() {
	s := new(session)
	requests := make(chan js.Value)
	end := func() {} // ends the last call, whose result is not needed once there is another
	js.Global().Set("onmessage", js.FuncOf(func(_ js.Value, args []js.Value) any {
		end()
		go func() { requests <- args[0].Get("data") }() // a callback of JavaScript must not wait
		return nil
	}))
	post(map[string]any{"ready": true})
	for message := range requests { // one after the other: device and plan belong to the session
		var ctx context.Context
		ctx, end = context.WithCancel(context.Background())
		s.answer(ctx, message)
		end()
	}
}

func post(message map[string]any) { js.Global().Call("postMessage", message) }

// answer does what a message requests.
func (s *session) answer(ctx context.Context, message js.Value) {
	id := message.Get("id")
	s.state = func(format string, args ...any) {
		post(map[string]any{"id": id, "state": fmt.Sprintf(format, args...)})
	}
	result, err := s.do(ctx, message)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(result); err == nil {
			post(map[string]any{"id": id, "result": string(text)})
			return
		}
	}
	post(map[string]any{"id": id, "error": err.Error()})
}

func (s *session) do(ctx context.Context, message js.Value) (any, error) {
	var r request
	if err := json.Unmarshal([]byte(message.Get("request").String()), &r); err != nil {
		return nil, err
	}
	if content := message.Get("content"); content.Truthy() {
		r.content = make([]byte, content.Length())
		js.CopyBytesToGo(r.content, content)
	}
	switch r.Call {
	case "devices":
		return devices(ctx)
	case "plan":
		if r.Layer != nil {
			return s.plannedLayer(ctx, &r)
		}
		return s.planned(ctx, &r)
	case "run":
		return s.measured(ctx)
	}
	return nil, fmt.Errorf("unknown call %q", r.Call)
}
