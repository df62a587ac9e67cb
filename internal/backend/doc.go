// Package backend is what backends over a driver's library share: the loss of a device, waits for queued
// work, the objects of a run, and caches of objects for recent operands.
package backend
