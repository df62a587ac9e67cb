//go:build !amd64 && !arm64

package cpu

func available() []*instructions { return []*instructions{&generic} }
