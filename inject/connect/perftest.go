package connect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// What perftest's programs say one after the other, both sides the same each time, the client first:
//
//	version       16 bytes, text
//	system data   page size, then cache line size, 4 bytes each
//	path MTU      its code as a digit and NUL
//	key messages  of one queue pair each; sent again, they mean "I am ready"
//	results       5 numbers of 8 bytes: size, iterations, peak, average, message rate
//	"done"
//
// Which key messages when is each program's own. k is one of the first queue pair, K one of each, R the results, before and
// after the traffic.
type perftestScript struct{ before, after, beforeDuplex, afterDuplex string }

var perftestScripts = map[string]perftestScript{
	"ib_write_bw":   {"KKk", "kRkD", "KKkk", "RkD"},
	"ib_read_bw":    {"KKk", "kRkD", "KKkk", "RkD"},
	"ib_atomic_bw":  {"KKk", "kRkD", "KKkk", "RkD"},
	"ib_send_bw":    {"KkKk", "kD", "KkKk", "RkD"},
	"ib_write_lat":  {"kKKk", "", "", ""},
	"ib_read_lat":   {"kKKk", "kD", "", ""},
	"ib_atomic_lat": {"kKKk", "kD", "", ""},
	"ib_send_lat":   {"KkKk", "kD", "", ""},
}

// PerftestPort is the TCP port of perftest and of the pingpong programs.
const PerftestPort = 18515

// PerftestQKey is the queue key that perftest and ibv_ud_pingpong use.
const PerftestQKey = 0x11111111

const (
	perftestVersion = "6.06" // the generation spoken here
	oldestPerftest  = 5.70   // as perftest itself has it: older ones say other things
	pageSize        = 4096
	cacheLine       = 64
)

// PerftestOptions are what both sides of perftest have to be told alike.
type PerftestOptions struct {
	Program   string // ib_write_bw, …
	Duplex    bool   // -b
	OverCM    bool   // -R, -z: the stream is of SENDs over a queue pair
	QPsByCM   bool   // -R: the queue pairs for the traffic are connected by CM as well
	Transport dissect.Transport
	MTU       int           // the largest path MTU; 0 = 1024
	Patience  time.Duration // for each message, and the whole conversation's end; 0 = 10 s
}

// PerftestResults is what the sides tell each other when the traffic is over.
type PerftestResults struct {
	Size, Iterations            uint64
	Peak, Average, MessageRateM float64 // MiB/s, MiB/s, million messages a second
}

// Perftest is the client's side of a conversation with one of perftest's programs.
type Perftest struct {
	Version string // the server's
	MTU     int    // agreed on

	o             PerftestOptions
	t             *talk
	before, after string // what is left to be said
	local, remote []Parameters
}

// GreetsPerftest reports whether a message that came over a queue pair is what a client of perftest -R or -z says first: its version.
func GreetsPerftest(b []byte) bool { return len(b) == 16 && greetsPerftest(b) }

func greetsPerftest(b []byte) bool { return isHex(b[0]) && (b[1] == '.' || b[2] == '.') }

// NewPerftest begins the conversation: versions, system data, path MTU.
func NewPerftest(s Stream, o PerftestOptions) (*Perftest, error) {
	script, ok := perftestScripts[o.Program]
	if !ok {
		return nil, fmt.Errorf("perftest has no program %q that is known here", o.Program)
	}
	setDefault(&o.MTU, 1024)
	if !dissect.ValidMTU(o.MTU) {
		return nil, fmt.Errorf("MTU %d: path MTUs are 256, 512, 1024, 2048 and 4096", o.MTU)
	}
	p := &Perftest{o: o, t: newTalk(s, o.Patience), before: script.before, after: script.after}
	if o.Duplex {
		if script.beforeDuplex == "" {
			return nil, fmt.Errorf("%s does not go both ways", o.Program)
		}
		p.before, p.after = script.beforeDuplex, script.afterDuplex
	}
	var err error
	p.Version, p.MTU, err = p.t.preamble(true, o.MTU)
	return p, err
}

// swap says something and hears the like: the client first.
func (t *talk) swap(client bool, own []byte, what string) ([]byte, error) {
	theirs := make([]byte, len(own))
	if client {
		if err := t.write(own, what); err != nil {
			return nil, err
		}
		return theirs, t.read(theirs, what)
	}
	if err := t.read(theirs, what); err != nil {
		return nil, err
	}
	return theirs, t.write(own, what)
}

// preamble is all that comes before the key messages.
func (t *talk) preamble(client bool, mtu int) (version string, agreed int, err error) {
	own := make([]byte, 16)
	copy(own, perftestVersion)
	b, err := t.swap(client, own, "perftest's version")
	if err != nil {
		return "", 0, err
	}
	version, _, _ = strings.Cut(string(b), "\x00")
	switch v, err := strconv.ParseFloat(version, 64); {
	case err != nil:
		return "", 0, garbage(b, "perftest's version")
	case !(v >= oldestPerftest):
		return "", 0, fmt.Errorf("perftest's version %q: it is to be %.2f or newer", version, oldestPerftest)
	}
	for _, number := range [...]uint32{pageSize, cacheLine} {
		if _, err := t.swap(client, be.AppendUint32(nil, number), "perftest's page and cache line size"); err != nil {
			return "", 0, err
		}
	}
	if b, err = t.swap(client, []byte{'0' + mtuCode(mtu), 0}, "perftest's path MTU"); err != nil {
		return "", 0, err
	}
	theirs := dissect.MTUBytes(b[0] - '0')
	if theirs == 0 || b[1] != 0 {
		return "", 0, garbage(b, "perftest's path MTU, a digit from 1 to 5 and NUL")
	}
	return version, min(mtu, theirs), nil
}

// Rendezvous is what the two say before and behind the setting up of the queue pairs by CM, with -R. (With -z they talk over a
// queue pair of CM's, and tell those for the traffic as they do over TCP.)
func (p *Perftest) Rendezvous() error {
	b, err := p.t.swap(true, make([]byte, binaryKeySize), keyWhat)
	if err == nil && !slices.Equal(b, make([]byte, binaryKeySize)) {
		err = garbage(b, "perftest's empty key message, before the queue pairs are connected")
	}
	return err
}

// Keys tells the own queue pairs, and returns the server's. Before Ready they are to be ready to send and to receive.
func (p *Perftest) Keys(local []Parameters) ([]Parameters, error) {
	if len(local) == 0 {
		return nil, errors.New("there are no queue pairs to tell")
	}
	p.local, p.remote = local, make([]Parameters, len(local))
	at := strings.IndexByte(p.before, 'K') + 1
	err := p.say(p.before[:at], nil)
	p.before = p.before[at:]
	return p.remote, err
}

// Ready tells that the traffic may begin, and returns when the server says so too.
func (p *Perftest) Ready() error {
	err := p.say(p.before, nil)
	p.before = ""
	return err
}

// Finish tells that the traffic is over, swaps results where the program does, and ends the conversation.
func (p *Perftest) Finish(own PerftestResults) (theirs PerftestResults, err error) {
	theirs = own
	err = p.say(p.after, &theirs)
	p.after = ""
	return theirs, err
}

// say goes through a part of the script.
func (p *Perftest) say(script string, results *PerftestResults) error {
	for _, what := range script {
		var err error
		switch what {
		case 'k':
			err = p.key(0)
		case 'K':
			for i := 0; i < len(p.local) && err == nil; i++ {
				err = p.key(i)
			}
		case 'R':
			*results, err = p.results(*results)
		case 'D':
			if !p.o.OverCM {
				err = p.t.write([]byte(doneText), "perftest's end")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// key swaps the key messages of a queue pair.
func (p *Perftest) key(i int) error {
	form := textKeys
	if p.o.OverCM {
		form = binaryKeys
	}
	b, err := p.t.swap(true, form.append(nil, &p.local[i]), keyWhat)
	if err != nil {
		return err
	}
	remote, err := form.parse(b)
	if err != nil {
		return err
	}
	if known := &p.remote[i]; known.QPN != 0 && known.QPN != remote.QPN {
		return fmt.Errorf("%s: QP %#06x where QP %#06x was said before: %w", keyWhat, remote.QPN, known.QPN, ErrGarbage)
	}
	remote.complete(p.o.Transport, p.MTU)
	p.remote[i] = remote
	return nil
}

// complete adds to what a text told what its programs take for granted.
func (p *Parameters) complete(t dissect.Transport, mtu int) {
	p.Transport, p.MTU, p.PKey = t, mtu, dissect.DefaultPKey
	p.AckTimeout, p.RetryCount, p.RNRRetryCount = defaultAckTimeout, 7, 7
	if t == dissect.UD {
		p.QKey = PerftestQKey
	}
}

// keyForm is one of the two forms of the key message.
type keyForm struct {
	size   int
	append func([]byte, *Parameters) []byte
	parse  func([]byte) (Parameters, error)
}

var (
	textKeys   = keyForm{keySize, appendKey, parseKey}
	binaryKeys = keyForm{binaryKeySize, appendBinaryKey, parseBinaryKey}
)

const resultsWhat = "perftest's results"

// results swaps results, number by number.
func (p *Perftest) results(own PerftestResults) (theirs PerftestResults, err error) {
	for i, v := range own.words() {
		b, err := p.t.swap(true, be.AppendUint64(nil, v), resultsWhat)
		if err != nil {
			return theirs, err
		}
		theirs.set(i, be.Uint64(b))
	}
	return theirs, nil
}

func (r *PerftestResults) words() [5]uint64 {
	return [...]uint64{r.Size, r.Iterations, math.Float64bits(r.Peak), math.Float64bits(r.Average), math.Float64bits(r.MessageRateM)}
}

// set sets the number of an index; further ones are of each port of two, which is not told.
func (r *PerftestResults) set(i int, v uint64) {
	switch i {
	case 0:
		r.Size = v
	case 1:
		r.Iterations = v
	case 2:
		r.Peak = math.Float64frombits(v)
	case 3:
		r.Average = math.Float64frombits(v)
	case 4:
		r.MessageRateM = math.Float64frombits(v)
	}
}
