package bench

import "fmt"

// Accuracy sums up the errors of a result against float64, as parts of
// sum|a|*|b| of each element.
type Accuracy struct {
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// text follows the error of a row; of nil it is "".
func (a *Accuracy) text() string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf(" (max %.2g, mean %.2g)", a.Max, a.Mean)
}
