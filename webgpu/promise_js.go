//go:build !nowebgpu

package webgpu

import (
	"context"
	"errors"
	"syscall/js"
)

// await waits for a promise, while other goroutines and the browser's event loop run. It returns the
// promise's value, or the reason of its rejection.
func await(ctx context.Context, promise js.Value) (js.Value, error) {
	type result struct {
		value js.Value
		err   error
	}
	settled := make(chan result, 1) // so that no callback blocks
	var fulfilled, rejected js.Func
	settle := func(r result) any {
		fulfilled.Release()
		rejected.Release()
		settled <- r
		return nil
	}
	fulfilled = js.FuncOf(func(_ js.Value, args []js.Value) any { return settle(result{value: args[0]}) })
	rejected = js.FuncOf(func(_ js.Value, args []js.Value) any {
		return settle(result{err: thrown(args[0])})
	})
	promise.Call("then", fulfilled, rejected)
	select {
	case r := <-settled:
		return r.value, r.err
	case <-ctx.Done():
		return js.Undefined(), ctx.Err()
	}
}

// thrown converts what JavaScript threw, usually an object with a message, to an error.
func thrown(v js.Value) error {
	if v.Type() == js.TypeObject && v.Get("message").Type() == js.TypeString {
		v = v.Get("message")
	}
	return errors.New(v.String())
}

// try calls a function that may throw in JavaScript.
func try(call func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case js.Error:
			err = thrown(r.Value)
		default:
			panic(r)
		}
	}()
	call()
	return nil
}
