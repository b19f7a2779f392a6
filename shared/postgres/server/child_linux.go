package server

import "syscall"

// dieWithParent has the kernel send the child a signal when we die.
func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }
