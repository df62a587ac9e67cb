package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Page is a page of a browser that is driven by the DevTools protocol
// (https://chromedevtools.github.io/devtools-protocol). It is not safe for concurrent use.
type Page struct {
	Logged []string // uncaught errors of the page, and what it logged

	ctx     context.Context
	cancel  context.CancelFunc
	gone    chan error
	to      *os.File
	from    *bufio.Reader
	pipe    *os.File
	session string
	calls   int
}

// message is a message of the protocol, in either direction.
type message struct {
	ID      int                       `json:"id,omitempty"`
	Session string                    `json:"sessionId,omitempty"`
	Method  string                    `json:"method,omitempty"`
	Params  any                       `json:"params,omitempty"`
	Result  json.RawMessage           `json:"result,omitempty"`
	Error   *struct{ Message string } `json:"error,omitempty"`
}

// Open starts a browser with these additional flags, and opens an address. It ends with ctx, or by Close.
func Open(ctx context.Context, executable string, flags []string, address string) (*Page, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), to.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Page{ctx: ctx, cancel: cancel, to: to, from: bufio.NewReader(from), pipe: from}
	p.gone, err = Start(ctx, executable, append([]string{"--remote-debugging-pipe"}, flags...), in, out)
	err = errors.Join(err, in.Close(), out.Close()) // the browser has them
	if err == nil {
		err = p.attach(address)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Page) attach(address string) error {
	var target struct{ TargetID string }
	if err := p.Do("Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := p.Do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true},
		&attached); err != nil {
		return err
	}
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "DOM"} {
		if err := p.Do(domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return p.Do("Page.navigate", map[string]any{"url": address}, nil)
}

// Close ends the browser.
func (p *Page) Close() {
	p.cancel()
	if p.gone != nil {
		<-p.gone
	}
	_ = p.to.Close()
	_ = p.pipe.Close()
}

// Do calls a method of the protocol. It stores the result in result unless that is nil.
func (p *Page) Do(method string, params, result any) error {
	p.calls++
	text, err := json.Marshal(message{ID: p.calls, Session: p.session, Method: method, Params: params})
	if err != nil {
		return err
	}
	if _, err := p.to.Write(append(text, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		text, err := p.from.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("%s: the browser ended: %w", method, errors.Join(err, p.ctx.Err()))
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			return err
		}
		switch {
		case m.Method == "Runtime.exceptionThrown" || m.Method == "Runtime.consoleAPICalled":
			p.Logged = append(p.Logged, string(text[:len(text)-1]))
		case m.ID != p.calls: // another event
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}

// Eval evaluates JavaScript, and waits if the value is a promise. It stores the value in value unless that
// is nil.
func (p *Page) Eval(script string, value any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.Do("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true,
		"returnByValue": true}, &r)
	switch {
	case err != nil:
		return err
	case r.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s %s", script, r.ExceptionDetails.Text,
			r.ExceptionDetails.Exception.Description)
	case value == nil || r.Result.Value == nil: // undefined
		return nil
	}
	return json.Unmarshal(r.Result.Value, value)
}

// Wait waits until a condition in JavaScript holds, or ctx of Open ends.
func (p *Page) Wait(condition string) error {
	for {
		holds := false
		if err := p.Eval("Boolean("+condition+")", &holds); err != nil || holds {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.ctx.Done():
			return fmt.Errorf("%s: %w\n%s", condition, p.ctx.Err(), strings.Join(p.Logged, "\n"))
		}
	}
}

// Press presses a key, such as Tab or ArrowRight.
func (p *Page) Press(key string) error {
	params := map[string]any{"type": "keyDown", "key": key, "code": key}
	if code, known := codes[key]; known {
		params["windowsVirtualKeyCode"] = code
	}
	if key == "Enter" {
		params["text"] = "\r"
	}
	if err := p.Do("Input.dispatchKeyEvent", params, nil); err != nil {
		return err
	}
	params["type"] = "keyUp"
	delete(params, "text")
	return p.Do("Input.dispatchKeyEvent", params, nil)
}

// codes are numbers of keys, without which browsers ignore them.
var codes = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38,
	"ArrowRight": 39, "ArrowDown": 40}
