package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// param is a number in the name of a workload.
type param struct {
	key string
	set func(text string) error // the error follows the key
}

// parseParams parses key=value,key=value of the workloads of a form, such as random:mn=512. Other parameters
// keep their values.
func parseParams(form, text string, params []param) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w \"%s:%s\": %w", ErrUnknown, form, text, fmt.Errorf(format, args...))
	}
	if text == "" {
		return nil
	}
	seen := map[string]bool{}
	for _, word := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(word, "=")
		p := find(params, key)
		if p == nil || seen[key] {
			return wrong("%.40q is not one of %s, once each", word, keys(params))
		}
		seen[key] = true
		if err := p.set(value); err != nil {
			return wrong("%s %w", key, err)
		}
	}
	return nil
}

func find(params []param, key string) *param {
	for i := range params {
		if params[i].key == key {
			return &params[i]
		}
	}
	return nil
}

func keys(params []param) string {
	var list []string
	for _, p := range params {
		list = append(list, p.key+"=")
	}
	return strings.Join(list, ", ")
}

// whole parses a number in [low, high].
func whole[T int | uint64](v *T, low, high T) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n < uint64(low) || n > uint64(high) {
			return fmt.Errorf("%.40q is not in [%d, %d]", text, low, high)
		}
		*v = T(n)
		return nil
	}
}

// decimal parses a number in [0, high].
func decimal(v *float64, high float64) func(string) error {
	return func(text string) error {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= 0 && x <= high) {
			return fmt.Errorf("%.40q is not in [0, %g]", text, high)
		}
		*v = x
		return nil
	}
}
