// Package planner decides how to cut a batch of small matrix products into tiles, and deals the tiles to the
// workgroups of a GPU. It is pure Go and knows no GPU API. It plans for any Device that is described by its
// facts.
//
// Pack, or a literal Batch, places the matrices. Planner.Plan checks the batch, chooses a tile shape for
// every problem (Rule), and deals segments to workers (Schedule, or the caller's CustomSchedule).
// Plan.Explain and Plan.WriteText say what was decided and why. A plan can be stored as JSON and read back.
// Plan.Encode returns the integers that kernels read.
//
// Package devices has known GPUs.
//
// Reading order: problem.go, plan.go, then build.go, check.go, options.go, model.go, choose.go with load.go,
// schedules.go with cost.go, deal.go, and encode.go.
package planner
