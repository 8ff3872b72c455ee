package port

import "golang.org/x/sys/unix"

// quiet keeps the kernel from answering the RoCE packets that it gets to see, beside us, with ICMP "port unreachable": a UDP
// socket has the port, and drops everything. Where another one has it, a software RNIC's for instance, that is as good.
type quiet []int

func (l *link) quiet() (q quiet) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		if fd, err := l.deaf(family); err == nil {
			q = append(q, fd)
		}
	}
	return q
}

// deaf opens a socket that receives nothing on RoCE's port of this interface.
func (l *link) deaf(family int) (fd int, err error) {
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, err
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
	if err == nil {
		err = unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, l.name)
	}
	if err == nil && family == unix.AF_INET {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: rocePort})
	}
	if err == nil && family == unix.AF_INET6 {
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet6{Port: rocePort})
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (q quiet) close() {
	for _, fd := range q {
		unix.Close(fd)
	}
}
