//go:build !amd64

package cpu

func available() []*instructions { return []*instructions{&generic} }
