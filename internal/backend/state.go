package backend

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// State says whether a device works. The zero State does. It is safe for concurrent use.
type State struct{ lost atomic.Pointer[error] }

// Err returns nil while the device works, and then why it was lost.
func (s *State) Err() error {
	if err := s.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready fails if ctx has ended or the device is lost. Calls begin with it.
func (s *State) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Err()
}

// Lose declares the device lost, and returns the error of every later call. The first reason stays.
func (s *State) Lose(info *driver.Info, reason error) error {
	err := fmt.Errorf("%s: %s: %w: %w", info.Backend, info.Name, hardware.ErrDeviceLost, reason)
	s.lost.CompareAndSwap(nil, &err)
	return s.Err()
}
