package main

// appendHexDump appends bytes as tshark -x prints them: an offset, sixteen
// bytes, and the same as text.
func appendHexDump(dst, b []byte) []byte {
	const digits = "0123456789abcdef"
	for at := 0; at < len(b); at += 16 {
		row := b[at:min(at+16, len(b))]
		for shift := 12; shift >= 0; shift -= 4 {
			dst = append(dst, digits[at>>shift&15])
		}
		dst = append(dst, ' ')
		for i := range 16 {
			if i < len(row) {
				dst = append(dst, ' ', digits[row[i]>>4], digits[row[i]&15])
			} else {
				dst = append(dst, "   "...)
			}
		}
		dst = append(dst, "   "...)
		for _, c := range row {
			if c < ' ' || c > '~' {
				c = '.'
			}
			dst = append(dst, c)
		}
		dst = append(dst, '\n')
	}
	return dst
}
