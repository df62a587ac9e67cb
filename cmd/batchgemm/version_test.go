package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/version"
)

func TestVersion(t *testing.T) {
	l := decode[buildListing](t, "", "version")
	require.Equal(t, version.Version, l.Version)
	require.Equal(t, runtime.Version(), l.Go)
	require.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, l.Platform)
	require.Len(t, l.Backends, len(dispatch.Backends()))
	require.Equal(t, builtBackend{Backend: "cpu"}, l.Backends[len(l.Backends)-1])

	require.Regexp(t, `^batchgemm +`+version.Version+` \(.*\)\ngo +.*\nbackends +.*cpu\n`,
		succeed(t, "", "version"))
	require.Equal(t, "batchgemm version "+version.Version+"\n", succeed(t, "", "--version"))
}

func TestVersionText(t *testing.T) {
	for name, c := range map[string]struct {
		listing buildListing
		want    string
	}{
		"all": {
			buildListing{Version: "1.2.3", Revision: "abc", Go: "go1.25.0", Platform: "linux/amd64",
				Backends: []builtBackend{{Backend: "cuda"}, {Backend: "cpu"}}},
			"batchgemm  1.2.3 (abc)\ngo         1.25.0 linux/amd64\nbackends   cuda cpu\n",
		},
		"modified": {
			buildListing{Version: "1.2.3", Revision: "abc", Modified: true, Go: "go1.25.0",
				Platform: "linux/amd64", Backends: []builtBackend{{Backend: "cpu"}}},
			"batchgemm  1.2.3 (abc, modified)\ngo         1.25.0 linux/amd64\nbackends   cpu\n",
		},
		"missing": {
			buildListing{Version: "1.2.3", Go: "go1.25.0", Platform: "linux/arm",
				Backends: []builtBackend{{"cuda", "needs cgo"}, {Backend: "cpu"}}},
			"batchgemm  1.2.3 (unknown revision)\ngo         1.25.0 linux/arm\nbackends   cpu\n\ncuda: not " +
				"in this build: needs cgo\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			require.NoError(t, c.listing.text(&out))
			require.Equal(t, c.want, out.String())
		})
	}
}

func TestRevision(t *testing.T) {
	of := func(module string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: module}, Settings: settings}
	}
	for name, c := range map[string]struct {
		info     *debug.BuildInfo
		revision string
		modified bool
	}{
		"unknown":    {of("(devel)"), "", false},
		"go install": {of("v0.2.0"), "v0.2.0", false},
		"go build": {of("(devel)", debug.BuildSetting{Key: "vcs.revision", Value: "abc"},
			debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "abc", false},
		"with a diff": {of("v0.2.1-0.2026+dirty", debug.BuildSetting{Key: "vcs.revision", Value: "abc"},
			debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "abc", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, modified := revision(c.info)
			require.Equal(t, c.revision, got)
			require.Equal(t, c.modified, modified)
		})
	}
}

func TestShellWords(t *testing.T) {
	require.Equal(t,
		`batchgemm bench zhang --vs cublas-grouped,f32 'a b' 'it'\''s' '' 'x*' random:mn=4,k=2 -`,
		shellWords([]string{"batchgemm", "bench", "zhang", "--vs", "cublas-grouped,f32", "a b", "it's", "",
			"x*", "random:mn=4,k=2", "-"}))
}
