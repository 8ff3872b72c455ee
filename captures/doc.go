// Package captures is where frames come from: capture files now, live
// interfaces and writers beside them.
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
// Two windows lie under one pair of parsers. Regular uncompressed files are
// read through a sliding memory mapping of 16 MiB, which keeps resident memory
// small however large the file is. All else goes through a read buffer. A mapping
// is the cheaper one where page faults are cheap, and the dearer one in virtual
// machines with shadow page tables; BenchmarkReadPcapng tells, Unmapped decides.
//
// # Files that shrink
//
// The price of a mapping is that a file which somebody truncates while it is
// read faults on access. [Source.ReadBatch] turns that into a [FileError];
// whoever touches [Frame.Data], on whichever goroutine, does so inside [Guard].
//
// # Damage
//
// A damaged or cut-off file is an error that names file, block and offset;
// every frame before the damage is delivered first. Where the damage does not
// hide the next block, [FileError.Resumable] is set and ReadBatch may simply be
// called again. Memory use depends on what a file holds, never on what it claims.
package captures
