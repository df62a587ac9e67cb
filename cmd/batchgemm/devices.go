package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/ownrates"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/internal/tune"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// listing is the JSON of devices.
type listing struct {
	Backends []backendListing `json:"backends"`
	Default  *deviceRef       `json:"default"` // null if nothing can be opened
	Skipped  []string         `json:"skipped"` // devices before the default, and why they were skipped
	Error    string           `json:"error,omitempty"`
}

type backendListing struct {
	Backend     string          `json:"backend"`
	Devices     []deviceListing `json:"devices"`
	Unavailable string          `json:"unavailable,omitempty"` // the reason
}

type deviceListing struct {
	dispatch.Info
	// of its kernels: from the package, or measured by tune
	Rates        string `json:"rates"`
	RatesIgnored string `json:"rates_ignored,omitempty"` // why a file of measured rates cannot be used

	Check *kernelCheck `json:"check,omitempty"` // with --check
}

func listDevice(info dispatch.Info) deviceListing {
	d := deviceListing{Info: info, Rates: "shipped"}
	tuned, err := ratefile.Load(&info)
	switch {
	case err != nil:
		d.RatesIgnored = err.Error()
	case ownrates.Has(&tuned):
		d.Rates = "measured"
	}
	return d
}

type deviceRef struct {
	Backend string `json:"backend"`
	Index   int    `json:"index"`
}

// newDevices returns the command; with --check it checks the kernels of plans with these options.
func newDevices(checked func(*planner.Device) []planner.Options) *cobra.Command {
	checks := false
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices of all backends",
		Long: `List all backends with their devices, or with the reason why they have none, such as
that this build of batchgemm lacks them. A device is discrete, integrated (a GPU that
shares the host's memory), software (it runs on the CPU) or other. Its ID is the same
every time. Elements are the types that it takes. It multiplies those in parentheses
as numbers of more bits, and the others directly. The default is the device that run
takes. Rates are the speeds of kernels that plans rest on: they came with the package,
or tune measured them.

With --check, kernels of each device run on small batches, and results are compared with
a float64 reference: all few kernels that WebGPU needs first, and all others. Some drivers
miscompile shaders. Plans avoid kernels that were wrong until the driver changes. The
report can be copied into an issue.`,
		Example: `  batchgemm devices
  batchgemm devices --check
  batchgemm devices --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l := listing{Skipped: []string{}}
			backends, err := dispatch.Devices(cmd.Context())
			if err != nil {
				return err
			}
			for _, b := range backends {
				entry := backendListing{Backend: b.Backend, Devices: []deviceListing{}}
				for _, info := range b.Devices {
					entry.Devices = append(entry.Devices, listDevice(info))
				}
				if b.Err != nil {
					entry.Unavailable = b.Err.Error()
				}
				l.Backends = append(l.Backends, entry)
			}
			if checks {
				if err := l.checkDevices(cmd, checked); err != nil {
					return err
				}
			}
			device, err := dispatch.Open(cmd.Context())
			if err != nil {
				l.Error = err.Error()
			} else {
				l.Default = &deviceRef{device.Info().Backend, device.Info().Index}
				for _, s := range device.Skipped() {
					if s.Device != nil { // reasons for backends are shown with them
						l.Skipped = append(l.Skipped, s.String())
					}
				}
				if err := device.Close(); err != nil {
					return err
				}
			}
			return cmp.Or(emit(cmd, l, l.text), l.wrong())
		},
	}
	cmd.Flags().BoolVar(&checks, "check", false, "run kernels of all devices and check their results")
	return cmd
}

// computes lists the compute modes of a device.
func computes(d *dispatch.Info) string {
	var names []string
	for _, c := range tune.Computes(&d.Planner) {
		names = append(names, string(c))
	}
	return strings.Join(names, " ")
}

// elements lists types of elements, with those that are converted in parentheses.
func elements(d *planner.Device) string {
	native := append([]element.Type{element.F32}, d.Native...)
	stored := slices.DeleteFunc(slices.Clone(d.Types), func(t element.Type) bool {
		return slices.Contains(native, t)
	})
	text := strings.Trim(fmt.Sprint(native), "[]")
	if len(stored) > 0 {
		text += " (" + strings.Trim(fmt.Sprint(stored), "[]") + ")"
	}
	return text
}

// showMemory rounds bytes to GiB; 0 is unknown.
func showMemory(bytes int64) string {
	if bytes == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.3g GiB", float64(bytes)/(1<<30))
}

func (l *listing) text(w io.Writer) error {
	rows := [][]string{{"BACKEND", "INDEX", "DEVICE", "VENDOR", "KIND", "MEMORY", "DRIVER", "SUBGROUP",
		"COMPUTE", "ELEMENTS", "RATES", "DEFAULT", "ID"}}
	var notes []string
	for _, b := range l.Backends {
		if b.Unavailable != "" {
			notes = append(notes, b.Backend+": "+b.Unavailable)
		}
		for _, d := range b.Devices {
			chosen := ""
			if l.Default != nil && *l.Default == (deviceRef{d.Backend, d.Index}) {
				chosen = "*"
			}
			rows = append(rows, []string{b.Backend, fmt.Sprint(d.Index), d.Name, cmp.Or(d.Vendor, "unknown"),
				string(cmp.Or(d.Kind, dispatch.KindOther)),
				showMemory(d.Memory), d.Driver, d.Subgroup, computes(&d.Info), elements(&d.Planner), d.Rates,
				chosen, d.ID})
			if d.RatesIgnored != "" {
				notes = append(notes, fmt.Sprintf("%s %d: measured rates are ignored, batchgemm tune makes "+
					"new ones: %s", b.Backend, d.Index, d.RatesIgnored))
			}
		}
	}
	for _, b := range l.Backends {
		for _, d := range b.Devices {
			if d.Check != nil {
				notes = append(notes, d.Check.notes(&d.Info)...)
			}
		}
	}
	for _, s := range l.Skipped {
		notes = append(notes, "not the default: "+s)
	}
	if l.Error != "" {
		notes = append(notes, "no default: "+l.Error)
	}
	return table(w, rows, notes)
}
