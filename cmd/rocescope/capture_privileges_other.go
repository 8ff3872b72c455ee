//go:build !linux

package main

// dropPrivileges has nothing to drop where nothing can be captured.
func dropPrivileges() error { return nil }

func noNewPrivileges() error { return nil }

// asInvoker opens files.
func asInvoker(open func() error) error { return open() }

var ownProcess bool

func denyCalls(bool) error { return nil }

type fence struct{}

func newFence(reach) (*fence, error) { return nil, nil }

func (*fence) enter() error { return nil }

func landlockVersion() int { return 0 }

func haveSeccomp() bool { return false }
