// Package planner decides how a batch of small matrix products is cut into
// tiles and dealt to the workgroups of a GPU. It is pure Go, knows no GPU API,
// and makes plans for any device of which it is told the facts (Device).
//
// The way of a batch: Pack or a literal Batch, then a Planner's Plan, which checks the
// batch, chooses a tile shape for every problem (Rule), and deals segments to workers
// (Schedule, or a CustomSchedule of the caller's own). Plan.Explain and Plan.WriteText
// say what was decided and why; as JSON a plan can be kept and read back; Plan.Encode
// gives the integers that kernels read.
//
// Package devices has the facts of known GPUs.
//
// Reading order: problem.go, plan.go, and then the way of a batch: build.go, check.go,
// options.go, model.go, choose.go with load.go, schedules.go with cost.go, deal.go, and encode.go.
package planner
