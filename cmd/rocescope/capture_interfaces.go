package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rocescope/rocescope/captures"
)

// captureCapabilities are what capturing needs, as setcap takes them.
const captureCapabilities = "cap_net_raw,cap_net_admin+ep"

// xdpCapabilities are what the engine xdp needs.
const xdpCapabilities = "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep"

// setcap is the command that lets this very program capture without root.
func setcap(capabilities string) string {
	self, err := os.Executable()
	if err != nil {
		self = "rocescope"
	}
	if strings.ContainsAny(self, " '\"\\$") {
		self = "'" + strings.ReplaceAll(self, "'", `'\''`) + "'"
	}
	return "sudo setcap " + capabilities + " " + self
}

// open begins to capture.
func (o *liveOptions) open() (*captures.Live, error) {
	c, err := o.captures()
	if err != nil {
		return nil, err
	}
	live, err := captures.OpenLive(c)
	if err != nil {
		return nil, o.openError(err)
	}
	return live, nil
}

// openError gives an error its exit code, and says what to do.
func (o *liveOptions) openError(err error) error {
	plain := &plainError{err}
	switch {
	case errors.Is(err, captures.ErrPrivilege):
		capabilities := captureCapabilities
		if o.engine == string(captures.EngineXDP) {
			capabilities = xdpCapabilities
		}
		return errUnavailable("%w\nTo capture, be root (sudo), or let this program do it once and for all:\n  %s", plain, setcap(capabilities))
	case errors.Is(err, captures.ErrNoInterface):
		return errUnavailable("%w; %s", plain, suggestInterface(o.name))
	case errors.Is(err, captures.ErrInterfaceDown):
		return errUnavailable("%w: sudo ip link set %s up", plain, o.name)
	case errors.Is(err, captures.ErrNotOffered), errors.Is(err, captures.ErrInterfaceGone):
		return errUnavailable("%w", plain)
	}
	return plain
}

// interfaceNames are the names of all interfaces.
func interfaceNames() (names []string) {
	all, err := captures.LiveInterfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

// suggestInterface names the interface that was meant, or all there are.
func suggestInterface(name string) string {
	names := interfaceNames()
	if len(names) == 0 {
		return "there is none at all"
	}
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %s? There are %s", near, strings.Join(names, ", "))
	}
	return "there are " + strings.Join(names, ", ")
}

// listInterfaces is -D.
func (a *app) listInterfaces() error {
	all, err := captures.LiveInterfaces()
	if err != nil {
		return errUnavailable("%w", &plainError{err})
	}
	for n, i := range all {
		if _, err := fmt.Fprintf(a.stdout, "%d. %s (%s)\n", n+1, i.Name, strings.Join(aboutInterface(&i), ", ")); err != nil {
			return err
		}
	}
	return nil
}

// aboutInterface is what one wants to know of an interface to choose it.
func aboutInterface(i *captures.LiveInterface) []string {
	state := "down"
	if i.Up {
		state = "up"
	}
	about := []string{state}
	if i.Loopback {
		about = append(about, "loopback")
	}
	about = append(about, i.Addresses...)
	about = append(about, fmt.Sprintf("MTU %d", i.MTU))
	switch {
	case i.Driver != "":
		about = append(about, i.Driver)
	case i.Kind != "":
		about = append(about, i.Kind)
	}
	return about
}
