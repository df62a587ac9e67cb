// Package backend is what backends over a driver's library have in common: the loss
// of a device, waits for its queued work, whose objects a run names, and what is kept
// for operands used before.
package backend
