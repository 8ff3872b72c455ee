// Package text writes rows as JSON lines and as CSV. Which rows and columns there are is package sink's affair.
package text

import "time"

// layout is how times are written: in UTC, with all nine digits, as in the analysis document.
const layout = "2006-01-02T15:04:05.000000000Z"

func appendTime(dst []byte, ns int64) []byte { return time.Unix(0, ns).UTC().AppendFormat(dst, layout) }
