//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"context"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/batchgemm/batchgemm/dispatch"
)

// reading is a read, or a product on host memory, in progress, as an object.
type reading struct {
	underWay
	cancel context.CancelFunc
}

// underWay is a dispatch.Reading, or similar.
type underWay interface {
	Done() <-chan struct{}
	Err() error
}

// Close returns when the caller may use its memory again.
func (r reading) Close() error {
	r.cancel()
	<-r.Done()
	return nil
}

func (r reading) ended() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

//export goBufferReadAsync
func goBufferReadAsync(mask *C.sigset_t, buffer C.bg_buffer, offset C.int64_t, dst unsafe.Pointer,
	count C.int64_t, out *C.bg_read) C.bg_status {
	return call(mask, func() error {
		return create(out, "read", handles.owner(buffer), func() (object, error) {
			b, err := find[*dispatch.Buffer](buffer)
			if err != nil {
				return nil, err
			}
			switch b.Type().PerWord() {
			case 0:
				return startRead[float64](b, offset, dst, count)
			case 8:
				return startRead[int32](b, offset, dst, count)
			case 4:
				return startRead[uint8](b, offset, dst, count)
			case 2:
				return startRead[uint16](b, offset, dst, count)
			}
			return startRead[float32](b, offset, dst, count)
		})
	})
}

// startRead reads elements; int32 is for words of eight elements of 4 bits.
func startRead[T float32 | float64 | uint16 | uint8 | int32](b *dispatch.Buffer, offset C.int64_t,
	dst unsafe.Pointer,
	count C.int64_t) (object, error) {
	host, err := elements[T](b, "dst", dst, count)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := reading{dispatch.ReadAsync(ctx, b, int(offset), host), cancel}
	if r.ended() && r.Err() != nil {
		cancel()
		return nil, r.Err()
	}
	return r, nil
}

//export goReadDone
func goReadDone(mask *C.sigset_t, read C.bg_read, done *C.int32_t) C.bg_status {
	return call(mask, func() error {
		if done == nil {
			return invalid("done is NULL")
		}
		*done = 0
		r, err := find[reading](read)
		if err == nil && r.ended() {
			*done = 1
		}
		return err
	})
}

//export goReadNotify
func goReadNotify(mask *C.sigset_t, read C.bg_read, fd C.int) C.bg_status {
	return call(mask, func() error {
		r, err := find[reading](read)
		if err != nil {
			return err
		}
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return invalid("fd %d: %w", fd, err)
		}
		// ends: a read at the latest when its device is closed, a product when it is done
		go func() {
			<-r.Done()
			tell(own)
			_ = unix.Close(own)
		}()
		return nil
	})
}

// tell adds 1 to an eventfd, if there is room. Otherwise its reader already has something to read, and
// waiting for room would block a thread.
func tell(fd int) {
	room := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if n, err := unix.Poll(room, 0); n != 1 || err != nil || room[0].Revents != unix.POLLOUT {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(fd, one[:]) // the error cannot be reported
}

//export goReadWait
func goReadWait(mask *C.sigset_t, read C.bg_read, timeout C.int64_t) C.bg_status {
	return call(mask, func() error {
		r, err := find[reading](read)
		if err != nil {
			return err
		}
		return within(timeout, func(ctx context.Context) error {
			select {
			case <-r.Done():
				return r.Err()
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
}
