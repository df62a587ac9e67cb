package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// phrases identify each licence: no other licence has its phrase.
var phrases = map[string]string{
	"Apache-2.0":   "Apache License",
	"MIT":          "Permission is hereby granted, free of charge, to any person obtaining a copy",
	"BSD-3-Clause": "may be used to endorse or promote products",
	"CC-BY-4.0":    "Creative Commons Attribution 4.0 International",
	"OFL-1.1":      "SIL Open Font License",
	"FTL":          "The FreeType License",
}

var (
	requirement = regexp.MustCompile(`(?m)^\s+(\S+) v\S+( // indirect)?$`)
	licenceRow  = regexp.MustCompile(`(?m)^\| (\S+/\S+) \| ([^|]+) \|[^|]+\|$`)
)

// TestLicences: docs/licences.md names exactly the modules of go.mod, and the licence beside their code.
func TestLicences(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "licences.md"))
	require.NoError(t, err)
	licences := map[string]string{}
	for _, row := range licenceRow.FindAllStringSubmatch(string(page), -1) {
		licences[row[1]] = row[2]
	}
	modules, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	var paths []string
	for _, line := range requirement.FindAllStringSubmatch(string(modules), -1) {
		paths = append(paths, line[1])
		require.Contains(t, licences, line[1], "docs/licences.md lacks a module of go.mod")
	}
	require.Len(t, licences, len(paths), "docs/licences.md has a module that go.mod has not")
	read := 0
	for _, path := range paths {
		text := licenceText(t, path)
		if text == "" {
			continue // not downloaded: not in the build for this system
		}
		read++
		for _, name := range strings.Split(licences[path], ", ") {
			require.Contains(t, phrases, name)
			require.Contains(t, text, phrases[name], path)
		}
	}
	require.Greater(t, read, 5)
}

// licenceText returns the licence files of a module, with single spaces.
func licenceText(t *testing.T, module string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "LICEN[CS]E*"))
	require.NoError(t, err)
	var all []string
	for _, file := range files {
		all = append(all, words(t, file))
	}
	return strings.Join(all, " ")
}

// words is the text of a file with single spaces.
func words(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Join(strings.Fields(string(text)), " ")
}

// TestNotices: NOTICES, which is shipped with builds, has the licences of everything in the library for C,
// except the Apache License, which is shipped too.
func TestNotices(t *testing.T) {
	root := filepath.Join("..", "..")
	notices := words(t, filepath.Join(root, "NOTICES"))
	list := func(args ...string) []string {
		out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	inside := list("-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "../../capi")
	require.Contains(t, inside, "golang.org/x/sys")
	for _, module := range inside {
		require.Contains(t, notices, module)
		if text := licenceText(t, module); !strings.Contains(text, phrases["Apache-2.0"]) {
			require.Contains(t, notices, text, module)
		}
	}
	require.Contains(t, words(t, filepath.Join(root, "LICENSE")), phrases["Apache-2.0"])
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	require.Contains(t, notices, words(t, filepath.Join(strings.TrimSpace(string(goRoot)), "LICENSE")))
}
