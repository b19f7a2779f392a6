//go:build !linux

package simulated

import (
	"context"
	"errors"
	"net"
)

// listenOnLoopback is Linux's: other systems have one loopback address only.
func listenOnLoopback(context.Context, int) (net.Listener, error) { return nil, errors.ErrUnsupported }
