package index

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Match looks for something in a packet. at and length say where it is in the
// packet's bytes; length is 0 where it is not in the bytes.
type Match func(row *Row) (at, length int, ok bool)

// MatchText looks for a text in the bytes, without regard to the case of letters
// unless the text has capitals.
func MatchText(text string) (Match, error) {
	if text == "" {
		return nil, errors.New("an empty text is in every packet: type what to look for")
	}
	if text != strings.ToLower(text) {
		return matchBytes([]byte(text)), nil
	}
	return MatchRegexp(regexp.QuoteMeta(text))
}

// MatchRegexp looks for a regular expression in the bytes, without regard to case
// unless it has capitals. It sees bytes, not letters.
func MatchRegexp(expr string) (Match, error) {
	if expr == strings.ToLower(expr) {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile("(?s)" + expr)
	if err != nil {
		return nil, fmt.Errorf("that is no regular expression: %w", err)
	}
	return func(row *Row) (int, int, bool) {
		loc := re.FindIndex(row.Data)
		if loc == nil {
			return 0, 0, false
		}
		return loc[0], loc[1] - loc[0], true
	}, nil
}

// MatchHex looks for bytes: two hexadecimal digits each, with 0x, blanks, colons,
// dots and hyphens where one likes.
func MatchHex(text string) (Match, error) {
	digits := strings.NewReplacer("0x", "", "0X", "", " ", "", ":", "", "-", "", ".", "").Replace(text)
	what, err := hex.DecodeString(digits)
	if err != nil || len(what) == 0 {
		return nil, fmt.Errorf("%q is no bytes: two hexadecimal digits each are wanted, such as 0a:ff", text)
	}
	return matchBytes(what), nil
}

func matchBytes(what []byte) Match {
	return func(row *Row) (int, int, bool) {
		at := bytes.Index(row.Data, what)
		return at, len(what), at >= 0
	}
}

// Hit is where a search ended.
type Hit struct {
	Number     uint64
	At, Length int // in the packet's bytes
}

// Search looks for the first packet behind from that matches, or the last one in
// front of it. With a view it looks at the view's packets only. It reads on until
// it has found one, or there are none, or the context ends; that may take as long
// as reading the capture.
func (r *Reader) Search(ctx context.Context, m Match, from uint64, backward bool, in *View) (h Hit, ok bool, err error) {
	ahead := r.ahead
	defer func() { r.ahead = ahead }()
	if !backward {
		r.ahead = straight
	}
	var row Row
	for steps := 0; ; steps++ {
		if steps%64 == 0 && ctx.Err() != nil {
			return h, false, context.Cause(ctx)
		}
		n, ok := r.x.neighbour(from, backward, in)
		if !ok {
			return h, false, nil
		}
		from = n
		err := r.At(n, &row)
		if gone := (*GoneError)(nil); errors.As(err, &gone) {
			continue
		}
		if err != nil {
			return h, false, err
		}
		if at, length, ok := m(&row); ok {
			return Hit{n, at, length}, true, nil
		}
	}
}

// neighbour is the next packet, or the one before, of all or of a view.
func (x *Index) neighbour(n uint64, backward bool, in *View) (uint64, bool) {
	first, last := x.First(), x.Last()
	switch {
	case in != nil && backward:
		i, _ := in.Find(n)
		return in.Frame(i - 1)
	case in != nil:
		i, exact := in.Find(n)
		if exact {
			i++
		}
		return in.Frame(i)
	case backward:
		return n - 1, n > first && n-1 <= last
	}
	n = max(n+1, first)
	return n, n <= last
}
