package connect

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/crash"
)

// Via is how two sides got to know each other by socket.
type Via uint8

// The ways.
const (
	ViaPerftest Via = iota
	ViaPingpong
	ViaExchange
	numVia
)

var viaNames = [numVia]string{"perftest", "pingpong", "rocescope exchange"}

func (v Via) String() string {
	if v < numVia {
		return viaNames[v]
	}
	return "unknown"
}

// Application is what a Server asks during one conversation, always from the same goroutine.
type Application interface {
	// Open makes a queue pair for one of the other side, ready to receive and to send, and returns what to tell of it.
	Open(remote Parameters) (local Parameters, err error)
	// Ready is told whenever the other side says that it is ready; the answer waits for the return. n counts from 1. perftest's
	// latency programs say so once before they have connected their queue pairs.
	Ready(n int) error
	// Results is asked when the other side swaps results, and told the other side's.
	Results() PerftestResults
	Told(PerftestResults)
	// Closed is told the end; err is nil if it was an orderly one.
	Closed(err error)
}

// rendezvous is an Application that has to know whether the queue pairs that Open will be told are connected by CM (perftest -R).
type rendezvous interface{ Rendezvous() }

// Server answers whoever connects by socket: perftest's programs, the pingpong programs, and rocescope, whose first words tell
// which it is. It goes along with what the client says: how many queue pairs, how often it says that it is ready, whether it
// swaps results; so the server needs not be told which program it is.
type Server struct {
	Transport dissect.Transport // of the clients but rocescope, which do not tell
	MTU       int               // the largest path MTU; 0 = 4096
	Pingpong  int               // the path MTU of the pingpong programs, which do not tell; 0 = 1024, as they have it
	New       func(via Via, peer net.Addr) (Application, error)
	Failed    func(peer net.Addr, err error) // is told of each connection that did not end well, even before New; by any goroutine; may be nil

	Patience time.Duration // for a message that is due; 0 = 10 s
	Idle     time.Duration // for one that is not, while the traffic runs; 0 = as long as TCP's keep-alive finds the peer there
	Limit    int           // conversations at a time; 0 = 256
	MaxQPs   int           // of one conversation; 0 = 1024
}

// shortage is how long to wait where the system has no room for a connection.
const shortage = 50 * time.Millisecond

// Serve answers who connects, until the listener is closed. Beyond the limit connections are closed at once.
func (s *Server) Serve(l net.Listener) error {
	free := make(chan struct{}, cmp.Or(s.Limit, 256))
	var all conversations
	defer all.end()
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
			time.Sleep(shortage) // others use up what there is; it need not be the end
			continue
		case err != nil:
			return fmt.Errorf("accept a connection on %v: %w", l.Addr(), err)
		}
		select {
		case free <- struct{}{}:
			all.begin(c, func() {
				if err := s.Answer(c, c.RemoteAddr()); err != nil {
					s.failed(c, err)
				}
				<-free
			})
		default:
			s.failed(c, fmt.Errorf("there are %d conversations already, as many as are allowed", cap(free)))
			_ = c.Close()
		}
	}
}

func (s *Server) failed(c net.Conn, err error) {
	if s.Failed != nil {
		s.Failed(c.RemoteAddr(), err)
	}
}

// conversations are those of a listener. They end with it.
type conversations struct {
	all   sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (v *conversations) begin(c net.Conn, hold func()) {
	v.mu.Lock()
	if v.conns == nil {
		v.conns = map[net.Conn]bool{}
	}
	v.conns[c] = true
	v.mu.Unlock()
	v.all.Go(func() {
		defer crash.Guard()
		hold()
		_ = c.Close()
		v.mu.Lock()
		delete(v.conns, c)
		v.mu.Unlock()
	})
}

func (v *conversations) end() {
	v.mu.Lock()
	for c := range v.conns {
		_ = c.Close()
	}
	v.mu.Unlock()
	v.all.Wait()
}

// Answer is the server's side of one conversation.
func (s *Server) Answer(stream Stream, peer net.Addr) error {
	t := newTalk(stream, s.Patience)
	first, err := t.peek(len(doneText), "the first words of perftest, of a pingpong program or of rocescope")
	if err != nil {
		return err
	}
	switch {
	case first[0] == '{':
		return s.hold(ViaExchange, peer, func(a Application) error { return s.answerExchange(t, a) })
	case isHex(first[0]) && first[4] == ':':
		return s.hold(ViaPingpong, peer, func(a Application) error { return s.answerPingpong(t, a) })
	case greetsPerftest(first):
		return s.hold(ViaPerftest, peer, func(a Application) error { return s.answerPerftest(t, a, textKeys) })
	}
	return garbage(first, "the first words of perftest, of a pingpong program or of rocescope")
}

// AnswerOverCM is the server's side of a conversation with perftest -R or -z, over a queue pair that CM connected: perftest's
// first connection to its port. With -R the queue pairs that Open is told were connected by CM as well, by the connections
// that followed the first (of UD, looked up by SIDR): there the PSNs of CM count. With -z they are new ones.
func (s *Server) AnswerOverCM(stream Stream, peer net.Addr) error {
	t := newTalk(stream, s.Patience)
	return s.hold(ViaPerftest, peer, func(a Application) error { return s.answerPerftest(t, a, binaryKeys) })
}

func (s *Server) hold(via Via, peer net.Addr, answer func(Application) error) error {
	a, err := s.New(via, peer)
	if err != nil {
		return err
	}
	err = answer(a)
	a.Closed(err)
	return err
}

func (s *Server) mtu() int    { return cmp.Or(s.MTU, 4096) }
func (s *Server) maxQPs() int { return cmp.Or(s.MaxQPs, 1024) }

// idle is how long to wait while the traffic runs; negative is for ever.
func (s *Server) idle() time.Duration {
	if s.Idle == 0 {
		return -1
	}
	return s.Idle
}

// open lets the application make a queue pair.
func (s *Server) open(a Application, remote Parameters) (Parameters, error) {
	local, err := a.Open(remote)
	if err == nil {
		err = local.Check()
	}
	if err != nil {
		return local, fmt.Errorf("a queue pair for QP %#06x of %v: %w", remote.QPN, remote.Address, err)
	}
	return local, nil
}

func (s *Server) answerPingpong(t *talk, a Application) error {
	b := make([]byte, pingpongSize)
	if err := t.read(b, "the text of a pingpong program"); err != nil {
		return err
	}
	remote, err := parsePingpong(b)
	if err != nil {
		return err
	}
	remote.complete(s.Transport, cmp.Or(s.Pingpong, 1024))
	local, err := s.open(a, remote)
	if err != nil {
		return err
	}
	if err := t.write(appendPingpong(nil, &local), "the text of a pingpong program"); err != nil {
		return err
	}
	b = b[:len(doneText)]
	if err := t.read(b, "the pingpong program's \"done\""); err != nil {
		return err
	}
	if string(b) != doneText {
		return garbage(b, "the pingpong program's \"done\"")
	}
	return a.Ready(1)
}

// Pingpong is the client's side of a conversation with ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong. The text tells no
// path MTU: it is that of local, as the programs take it from their own command line.
func Pingpong(s Stream, patience time.Duration, local Parameters) (remote Parameters, err error) {
	t := newTalk(s, patience)
	b, err := t.swap(true, appendPingpong(nil, &local), "the text of a pingpong program")
	if err != nil {
		return remote, err
	}
	if remote, err = parsePingpong(b); err != nil {
		return remote, err
	}
	remote.complete(local.Transport, local.MTU)
	return remote, t.write([]byte(doneText), "\"done\"")
}
