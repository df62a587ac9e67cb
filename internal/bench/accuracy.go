package bench

import "fmt"

// Accuracy summarises the errors of a result against float64, relative to sum|a|*|b| of each element.
type Accuracy struct {
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// text returns the text after the error of a row, "" for nil.
func (a *Accuracy) text() string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf(" (max %.2g, mean %.2g)", a.Max, a.Mean)
}
