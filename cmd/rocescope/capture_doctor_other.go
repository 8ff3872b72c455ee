//go:build !linux

package main

import "runtime"

func kernelRelease() string                          { return runtime.GOOS }
func effectiveCapabilities() []string                { return nil }
func rdmaDevices(string) []string                    { return nil }
func isSoftRDMA(string) bool                         { return false }
func hardwareTimes(string) (offered bool, phc int32) { return false, -1 }
func askCard(string) (c card)                        { return c }
