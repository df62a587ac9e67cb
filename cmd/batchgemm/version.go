package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/version"
)

// buildListing is the JSON of version.
type buildListing struct {
	Version  string         `json:"version"`
	Revision string         `json:"revision"` // "" if the build does not know it
	Modified bool           `json:"modified"` // the files differed from the revision
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Backends []builtBackend `json:"backends"`
}

type builtBackend struct {
	Backend string `json:"backend"`
	Missing string `json:"missing,omitempty"` // why this build lacks it
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say what this build is",
		Long: `Print the version of batchgemm, the revision that it was built from (if the build
knows it), the version of Go, and the backends that are built in. The command devices
says whether they can run here.`,
		Example: `  batchgemm version
  batchgemm version --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l := buildListing{Version: version.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" +
				runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				l.Revision, l.Modified = revision(info)
			}
			for _, d := range dispatch.Backends() {
				l.Backends = append(l.Backends, builtBackend{d.Name(), backend.WhyMissing(d)})
			}
			return emit(cmd, l, l.text)
		},
	}
}

// revision returns that of the built repository, or the version of the module that go install fetched.
func revision(info *debug.BuildInfo) (name string, modified bool) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			name = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if name == "" && info.Main.Version != "(devel)" {
		name = info.Main.Version
	}
	return name, modified
}

func (l *buildListing) text(w io.Writer) error {
	built := "unknown revision"
	if l.Revision != "" {
		built = l.Revision
	}
	if l.Modified {
		built += ", modified"
	}
	var has, notes []string
	for _, b := range l.Backends {
		if b.Missing == "" {
			has = append(has, b.Backend)
		} else {
			notes = append(notes, b.Backend+": not in this build: "+b.Missing)
		}
	}
	return table(w, [][]string{
		{"batchgemm", fmt.Sprintf("%s (%s)", l.Version, built)},
		{"go", strings.TrimPrefix(l.Go, "go") + " " + l.Platform},
		{"backends", strings.Join(has, " ")},
	}, notes)
}
