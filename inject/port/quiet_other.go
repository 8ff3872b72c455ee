//go:build !linux

package port

type quiet struct{}

func (l *link) quiet() quiet { return quiet{} }

func (q quiet) close() {}
