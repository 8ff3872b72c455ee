package connect

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// heard is what a client of perftest says next.
type heard uint8

const (
	heardKey heard = iota
	heardNumber
	heardDone
	heardEnd // it hung up
)

// perftestServer is one conversation as the server has it.
type perftestServer struct {
	s       *Server
	t       *talk
	a       Application
	form    keyForm
	mtu     int
	pairs   []pair
	ready   int
	own     PerftestResults
	theirs  PerftestResults
	numbers int
}

type pair struct{ local, remote Parameters }

// maxNumbers is how many results there are at most: those of both ports of a device as well.
const maxNumbers = 9

func (s *Server) answerPerftest(t *talk, a Application, form keyForm) error {
	p := &perftestServer{s: s, t: t, a: a, form: form}
	var err error
	if _, p.mtu, err = t.preamble(false, s.mtu()); err != nil {
		return err
	}
	for {
		what, b, err := p.next()
		switch {
		case err != nil:
			return err
		case what == heardKey:
			err = p.key(b)
		case what == heardNumber:
			err = p.number(be.Uint64(b))
		case what == heardDone:
			_ = t.write(b, "perftest's end") // a client that has gone does not mind
			return nil
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// next reads what the client says next, which is known by how it looks.
func (p *perftestServer) next() (heard, []byte, error) {
	wait := p.t.patience
	if p.ready > 0 { // there may be traffic first
		wait = p.s.idle()
	}
	b := make([]byte, p.form.size)
	if p.form.size == binaryKeySize {
		return p.nextMessage(wait, b)
	}
	const least = len(doneText)
	if err := p.t.readWithin(wait, b[:least], keyWhat); err != nil {
		if errors.Is(err, ErrHungUp) && p.ready > 0 {
			return heardEnd, nil, nil // ib_write_lat says no more
		}
		return 0, nil, err
	}
	what, size := heardNumber, 8
	switch {
	case string(b[:least]) == doneText:
		return heardDone, b[:least], nil
	case fits(keyShape[:least], b[:least]):
		what, size = heardKey, keySize
	}
	return what, b[:size], p.t.read(b[least:size], keyWhat)
}

// nextMessage is next over a queue pair, whose messages have a length.
func (p *perftestServer) nextMessage(wait time.Duration, b []byte) (heard, []byte, error) {
	if err := p.t.allow(wait); err != nil {
		return 0, nil, err
	}
	n, err := p.t.s.Read(b)
	switch {
	case n == binaryKeySize:
		return heardKey, b, nil
	case n == 8:
		return heardNumber, b[:n], nil
	case err == nil:
		return 0, nil, garbage(b[:n], keyWhat)
	}
	if err = failed(err, n, keyWhat, wait); errors.Is(err, ErrHungUp) && p.ready > 0 {
		return heardEnd, nil, nil // the connection's end is the conversation's
	}
	return 0, nil, err
}

// key answers a key message: of a new queue pair by a new one, else by the one that was told before.
func (p *perftestServer) key(b []byte) error {
	if p.form.size == binaryKeySize && len(p.pairs) == 0 && slices.Equal(b, make([]byte, binaryKeySize)) {
		if a, ok := p.a.(rendezvous); ok {
			a.Rendezvous()
		}
		return p.t.write(b, keyWhat) // the queue pairs are being connected
	}
	remote, err := p.form.parse(b)
	if err != nil {
		return err
	}
	p.numbers = 0 // with -a there are results of each size
	remote.complete(p.s.Transport, p.mtu)
	i := slices.IndexFunc(p.pairs, func(q pair) bool { return q.remote.QPN == remote.QPN })
	switch {
	case i < 0 && len(p.pairs) >= p.s.maxQPs():
		return fmt.Errorf("%s: there are %d queue pairs already, and no more are allowed", keyWhat, len(p.pairs))
	case i < 0:
		local, err := p.s.open(p.a, remote)
		if err != nil {
			return err
		}
		i = len(p.pairs)
		p.pairs = append(p.pairs, pair{local, remote})
	case i == 0:
		p.ready++
		if err := p.a.Ready(p.ready); err != nil {
			return err
		}
	}
	return p.t.write(p.form.append(nil, &p.pairs[i].local), keyWhat)
}

// number answers a number of the results.
func (p *perftestServer) number(v uint64) error {
	if p.numbers == 0 {
		p.own = p.a.Results()
	}
	if p.ready == 0 || p.numbers >= maxNumbers {
		return garbage(be.AppendUint64(nil, v), keyWhat)
	}
	var own uint64
	if words := p.own.words(); p.numbers < len(words) {
		own = words[p.numbers]
	}
	p.theirs.set(p.numbers, v)
	if p.numbers++; p.numbers == len(p.own.words()) {
		p.a.Told(p.theirs)
	}
	return p.t.write(be.AppendUint64(nil, own), resultsWhat)
}
