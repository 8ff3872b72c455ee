//go:build !linux

package captures

// Prioritize does nothing where live captures cannot be had.
func Prioritize() (restore func()) { return func() {} }
