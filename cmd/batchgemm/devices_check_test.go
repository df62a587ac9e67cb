package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/selfcheck"
	"github.com/batchgemm/batchgemm/planner"
)

// TestDevicesCheck runs the kernels of a small tile shape on all devices.
func TestDevicesCheck(t *testing.T) {
	run := func(options planner.Options, args ...string) string {
		root, _ := newRoot()
		full, _, err := root.Find([]string{"devices"})
		require.NoError(t, err)
		root.RemoveCommand(full)
		root.AddCommand(newDevices(func(*planner.Device) []planner.Options {
			return []planner.Options{options}
		}))
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append([]string{"devices", "--check"}, args...))
		require.NoError(t, root.ExecuteContext(t.Context()))
		return out.String()
	}
	var l listing
	require.NoError(t, json.Unmarshal([]byte(run(planner.Options{Tile: "small"}, "--json")), &l))
	for _, b := range l.Backends {
		for _, d := range b.Devices {
			require.Positive(t, d.Check.Kernels, d.Name)
			require.Empty(t, d.Check.Wrong, d.Name)
			require.Empty(t, d.Check.Failure, d.Name)
		}
	}
	require.Regexp(t, `(?m)^cpu 0, .*: not all kernels were checked: unknown tile "none"`,
		run(planner.Options{Tile: "none"}))
}

// TestChecksAllTypes: all types of elements that the CPU has are checked, with a small tile shape.
func TestChecksAllTypes(t *testing.T) {
	backends := dispatch.Backends()
	at := slices.IndexFunc(backends, func(b driver.Driver) bool { return b.Name() == "cpu" })
	devices, err := backends[at].Devices(t.Context())
	require.NoError(t, err)
	cmd := newDevices(nil)
	cmd.SetContext(t.Context())
	for _, o := range checkedOptions(&devices[0].Planner) {
		t.Run(o.TypeA.String(), func(t *testing.T) {
			o.Tile = "small"
			var k kernelCheck
			require.NoError(t, k.device(cmd, backends[at], &devices[0],
				func(*planner.Device) []planner.Options { return []planner.Options{o} }))
			require.Positive(t, k.Kernels)
			require.Empty(t, k.Wrong)
		})
	}
}

// TestReportOfCheck: a report names the device, its driver and the kernels that are wrong.
func TestReportOfCheck(t *testing.T) {
	d := deviceListing{Info: dispatch.Info{Backend: "webgpu", Name: "a GPU", Driver: "7.1"},
		Check: &kernelCheck{Kernels: 9, Seconds: 1.25,
			Wrong: []selfcheck.Wrong{{Kernels: "small/nn", Found: "C[1,2] is 3"}}}}
	l := &listing{Backends: []backendListing{{Backend: "webgpu", Devices: []deviceListing{d}}}}
	var out bytes.Buffer
	require.NoError(t, l.text(&out))
	require.Contains(t, out.String(), "webgpu 0, a GPU, driver 7.1: WRONG: small/nn: C[1,2] is 3\n")
	require.Regexp(t, `webgpu 0, a GPU, driver 7.1: 9 kernels ran in 1\.. s; groups that are wrong: 1 \(`,
		out.String())
	require.EqualError(t, l.wrong(), "groups of kernels that compute wrong results: 1")
	l.Backends[0].Devices[0].Check.Wrong = nil
	require.NoError(t, l.wrong())
}
