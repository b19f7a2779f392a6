//go:build !linux

package server

import "syscall"

// dieWithParent does nothing where the kernel has no such service: there, a
// server whose parent was killed is ended by the next start (endOrphan).
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
