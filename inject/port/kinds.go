package port

// listed gives ports of one kind as ports.
func listed[P Port](ports []P, err error) ([]Port, error) {
	if err != nil {
		return nil, err
	}
	all := make([]Port, len(ports))
	for i, p := range ports {
		all[i] = p
	}
	return all, nil
}

// alone gives one port as a list.
func alone[P Port](p P, err error) ([]Port, error) {
	if err != nil {
		return nil, err
	}
	return []Port{p}, nil
}

// Names of the kinds, as Options.Via and Info.Via have them; ViaLive is one too.
const (
	ViaXDP    = "xdp"
	ViaPacket = "packet"
	ViaFile   = "pcap"
	ViaPipe   = "pipe"
	ViaMemory = "memory"
)
