//go:build !linux

package main

// dropPrivileges has nothing to drop where nothing can be captured.
func dropPrivileges() error { return nil }

// asInvoker opens files.
func asInvoker(open func() error) error { return open() }
