package main

import (
	"os"
	"regexp"
	"strings"
)

var (
	kernelText = regexp.MustCompile(`(?m)^TEXT .*, \$\d+-8\n(?:(?:(?:\t|\w+:).*)?\n)+`)
	spaces     = regexp.MustCompile(`[ \t]+`)
)

// joinLines puts the instructions of each kernel, which takes a pointer, on one line of a file. Programs have
// the line of every instruction: that is as much as 6 % of the kernels' code.
func joinLines(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text = kernelText.ReplaceAllFunc(text, func(kernel []byte) []byte {
		head, body, _ := strings.Cut(string(kernel), "\n")
		var all []string
		for line := range strings.Lines(body) {
			line, _, _ = strings.Cut(line, "//")
			if line = strings.TrimSpace(spaces.ReplaceAllString(line, " ")); line != "" {
				all = append(all, line)
			}
		}
		return []byte(head + "\n\t" + strings.Join(all, "; ") + "\n\n")
	})
	return os.WriteFile(path, []byte(strings.TrimRight(string(text), "\n")+"\n"), 0o644)
}
