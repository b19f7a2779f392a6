package simulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// listenOnLoopback listens on a port of every address in 127.0.0.0/8: on all
// addresses, but on the loopback device only.
func listenOnLoopback(ctx context.Context, port int) (net.Listener, error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bound error
		err := raw.Control(func(fd uintptr) {
			bound = os.NewSyscallError("SO_BINDTODEVICE", syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, "lo"))
		})
		return errors.Join(err, bound)
	}}
	l, err := c.Listen(ctx, "tcp4", "0.0.0.0:"+strconv.Itoa(port))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENOPROTOOPT) {
		return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return l, err
}
