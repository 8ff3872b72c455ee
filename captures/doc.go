// Package captures is where frames come from and go to: capture files, live
// interfaces, and writers.
//
// It owns sources, time stamps, link types and drop counts. It does not know
// what the bytes of a frame mean (package dissect does) and it keeps nothing
// about connections (package flows does).
//
// A [Source] hands out batches of borrowed [Frame] values:
//
//	src, err := captures.Open("trace.pcapng.zst")
//	if err != nil {
//		return err
//	}
//	defer src.Close()
//	batch := make([]captures.Frame, 256)
//	for {
//		n, err := src.ReadBatch(batch)
//		if errors.Is(err, io.EOF) {
//			return nil
//		}
//		if err != nil {
//			return err // what came before it has been delivered
//		}
//		err = captures.Guard(func() error { return handle(batch[:n]) })
//		…
//	}
//
// # Files
//
// pcap (micro- and nanosecond, both byte orders, the "modified" variant with
// 24-byte records) and pcapng (any number of sections, each with its own byte
// order), plain or compressed by gzip or zstd, from a path, a pipe or standard
// input. The format is found by content, never by the file's name.
//
// Two windows lie under one pair of parsers: a read buffer, and for regular
// uncompressed files a sliding memory mapping of 16 MiB. Both keep memory small
// however large the file is, and both give the same frames. Which is cheaper,
// the machine decides: a mapping saves read(2)'s copy and costs page faults. In a
// virtual machine whose hypervisor mirrors page tables, a packet of 1090 bytes
// took 440 to 790 ns mapped and 60 to 85 ns read; where page faults are cheap,
// about 40 mapped and 110 read. So [Open] tries both on the first piece of a file
// of 64 MiB or more, which takes a millisecond or two, and reads smaller ones.
// [Mapped] and [Unmapped] decide instead; docs/performance.md has the
// figures of one machine.
//
// # Files that shrink
//
// A file that somebody truncates while it is read ends with an error, also
// where the cut lies between two records. The price of a mapping is that
// such a file faults on access. [Source.ReadBatch] turns that into a [FileError];
// whoever touches [Frame.Data], on whichever goroutine, does so inside [Guard].
//
// # Damage
//
// A damaged or cut-off file is an error that names file, block and offset;
// every frame before the damage is delivered first. Where the damage does not
// hide the next block, [FileError.Resumable] is set and ReadBatch may simply be
// called again. Memory use depends on what a file holds, never on what it claims.
//
// # Interfaces
//
// [OpenLive] captures from an interface by one of two engines: packet copies
// frames into rings that the kernel fills (AF_PACKET, TPACKET_V3), one for each of
// several cores; xdp takes them from the driver (AF_XDP), with a thread for each
// queue. A filter in the kernel keeps RoCE and what explains it. Frames are as they
// were on the wire, VLAN tags included, and say which way they went. Nothing is lost
// without being counted, and what is counted adds up: see [LiveStats]. [Live.Stop]
// lets no more frames in, and those that were let in still come out.
//
// # Writing
//
// [Writer] writes pcapng in whole blocks. [Recorder] does so on a goroutine of its
// own behind a bounded queue, with rotation; [Queue] hands copies of frames to
// whoever looks at them meanwhile. Neither ever makes the capture wait.
package captures
