//go:build !amd64

package cpu

import "github.com/batchgemm/batchgemm/planner/element"

func panelsOf(element.Type) []func(*panel) { return nil }
