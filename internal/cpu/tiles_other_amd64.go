//go:build amd64 && !linux

package cpu

func mayUseTiles() bool { return false }
