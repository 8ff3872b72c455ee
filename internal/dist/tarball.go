package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
)

// tarball packs the files below one folder, which can be unpacked over /usr/local.
func (r *release) tarball(base string, files []file) error {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		head := &tar.Header{
			Name: path.Join(base, places[f.kind].tar, f.name), Mode: f.mode(), Size: int64(len(f.data)),
			ModTime: r.stamp.time, Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(head); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return r.write(base+".tar.gz", out.Bytes())
}

// sums writes the checksums of all files, as sha256sum -c reads them.
func (r *release) sums() error {
	sort.Strings(r.written)
	var out bytes.Buffer
	for _, name := range r.written {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), name)
	}
	return r.write("SHA256SUMS", out.Bytes())
}
