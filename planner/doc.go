// Package planner decides how a batch of small matrix products is cut into
// tiles and dealt to the workgroups of a GPU. It is pure Go, knows no GPU API,
// and makes plans for any device of which it is told the facts (Device).
//
// The way of a batch: Pack or a literal Batch, then New, which checks the batch,
// chooses a tile shape for every problem (Rule), deals segments to workers
// (Schedule, or a CustomSchedule of the caller's own) and returns a Plan;
// Plan.Encode gives the integers that kernels read, Plan.WriteText and its JSON
// say what was decided and why.
//
// Reading order: problem.go, tile.go, plan.go, then build.go, cost.go,
// schedules.go, schedule.go and custom.go.
package planner
