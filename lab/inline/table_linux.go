// Package inline holds `rocescope wire` to its word: two guests of the laboratory run unmodified programs through it, each row with
// one rule, and what went in at one side, what came out at the other, what flows makes of both captures, and what the guests
// counted must differ by just that. Comparing captures belongs to internal/diff, the guests to lab.
package inline

import "time"

// Row is one run of a program between two guests. The first guest is the client, and way=out is from it to the second.
type Row struct {
	Name           string
	Server, Client string // programs and arguments; {it}: the server's address
	Rule           string // empty: nothing is done to any packet
	Effect
	Delay  time.Duration              // that the slowest packet has by the rule
	Struck int                        // 0: the client's packets, 1: the server's
	Alters func(was, is string) error // how the packet that is gone and the one that is new have to differ
	// Differs is what a comparison of both captures (rocescope diff) finds, and it finds nothing else.
	Differs map[string]int64
	// ClientSees and ServerSees are what flows counts in the capture at each end, and it counts nothing else.
	ClientSees, ServerSees map[string]int64
	// ClientMoves and ServerMoves are by how much the guests' counters move; others may move as they like.
	ClientMoves, ServerMoves map[string]int64
	Smoke                    bool
}

// Effect is what becomes of packets on the way.
type Effect struct {
	Lost int // went in, and did not come out as they were
	Made int // came out, and had not gone in as that
	Late int // came out behind others that had gone in behind them
}

// The programs. The acknowledgement time-out is long (-u 21: 8.6 s) where none is due, for the guests share the processor of a busy
// machine, and shorter (-u 19: 2.1 s) where one is.
const (
	write    = "ib_write_bw -d rxe0 -x 1 -m 1024 -s 8192 -n 5 -t 1 -Q 1 -u 21 -F"
	writes   = "ib_write_bw -d rxe0 -x 1 -m 1024 -s 8192 -n 5 -t 5 -Q 1 -u 21 -F"
	unacked  = "ib_write_bw -d rxe0 -x 1 -m 1024 -s 8192 -n 5 -t 1 -Q 1 -u 19 -F"
	read5    = "ib_read_bw -d rxe0 -x 1 -m 1024 -s 8192 -n 5 -t 1 -Q 1 -u 21 -o 1 -F"
	unread   = "ib_read_bw -d rxe0 -x 1 -m 1024 -s 8192 -n 5 -t 1 -Q 1 -u 19 -o 1 -F"
	two      = "ib_write_bw -d rxe0 -x 1 -m 1024 -s 1024 -n 5 -t 1 -Q 1 -u 21 -R -q 2 -F" // by CM: the second queue pair's REQ does not wait for an answer to the first's
	to       = " {it}"
	listener = "rping -s -a 10.77.0.3 -v -C 3 -S 200"
	caller   = "rping -c -a {it} -v -C 3 -S 200"
)

// Where the bytes are in a frame that rules change a bit of.
const (
	transport = 14 + 20 + 8
	msn       = transport + 15 // the last byte of the AETH
	payload   = transport + 12 // behind the BTH
	mad       = payload + 8    // behind BTH and DETH
)

// The packets that rules strike.
const (
	middle   = "nth=3 way=out when bth.opcode == RC_RDMA_WRITE_MIDDLE"
	ack      = "nth=2 way=in when bth.opcode == RC_ACKNOWLEDGE"
	response = "nth=3 way=in when bth.opcode == RC_RDMA_READ_RESPONSE_MIDDLE"
	request  = "nth=1 way=out when infiniband.mad" // by CM: REQ
	first    = "nth=3 way=out when infiniband.mad" // by perftest's CM: the REQ of the first queue pair, behind REQ and RTU of the connection that it talks by
	ready    = "nth=2 way=out when infiniband.mad" // by CM: RTU, which the first message follows
)

// The same packets, as the comparison of both captures names them.
const (
	theMiddle   = "RC_RDMA_WRITE_MIDDLE from the client"
	theACK      = "RC_ACKNOWLEDGE from the server"
	theResponse = "RC_RDMA_READ_RESPONSE_MIDDLE from the server"
	theRequest  = "UD_SEND_ONLY from the client"
)

// moves is what a guest counts, or flows sees.
type moves = map[string]int64

// Table is all that is run: nothing, and then each action on each kind of packet.
var Table = []Row{
	{
		Name: "no rule, perftest WRITE", Server: write, Client: write + to, Smoke: true,
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},
	{
		Name: "no rule, perftest READ", Server: read5, Client: read5 + to,
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},
	{
		Name: "no rule, rping", Server: listener, Client: caller,
		ClientMoves: moves{"rdma_recvs": 8, "rdma_sends": 9}, ServerMoves: moves{"rdma_recvs": 9, "rdma_sends": 8},
	},

	{
		Name: "drop of a WRITE middle", Server: write, Client: write + to, Rule: "drop " + middle, Effect: Effect{Lost: 1}, Smoke: true,
		Differs:    moves{"lost " + theMiddle: 1},
		ClientSees: moves{"lost behind": 1, "sent again": 5, "sequence NAK": 1}, ServerSees: moves{"lost before": 1, "sent again": 5, "sequence NAK": 1},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 1}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 1},
	},
	{
		Name: "duplicate of a WRITE middle", Server: write, Client: write + to, Rule: "duplicate " + middle, Effect: Effect{Made: 1},
		Differs:     moves{"duplicated " + theMiddle: 1},
		ServerSees:  moves{"doubled": 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_pkts": 6, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 1, "out_of_seq_request": 0, "rcvd_pkts": 41},
	},
	{
		Name: "reorder of a WRITE middle", Server: write, Client: write + to, Rule: "reorder by=1 " + middle, Effect: Effect{Late: 1},
		Differs:    moves{"reordered " + theMiddle: 1},
		ClientSees: moves{"sent again": 5, "sequence NAK": 2}, ServerSees: moves{"reordered": 1, "sent again": 5, "sequence NAK": 2},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 2}, ServerMoves: moves{"duplicate_request": 1, "out_of_seq_request": 2},
	},
	{
		Name: "delay of a WRITE middle", Server: write, Client: write + to, Rule: "delay time=100ms " + middle, Effect: Effect{Late: 1}, Delay: 100 * time.Millisecond,
		Differs:    moves{"reordered " + theMiddle: 1},
		ClientSees: moves{"lost behind": 1, "sent again": 5, "sequence NAK": 1}, ServerSees: moves{"reordered": 1, "sent again": 5, "sequence NAK": 1},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 1}, ServerMoves: moves{"duplicate_request": 1, "out_of_seq_request": 1},
	},
	{
		Name: "corruption of a WRITE middle", Server: write, Client: write + to, Rule: "corrupt where=payload bit=7 " + middle, Effect: Effect{Lost: 1, Made: 1}, Alters: lowestBitOf(payload),
		Differs:    moves{"changed " + theMiddle: 1},
		ClientSees: moves{"lost behind": 1, "sent again": 5, "sequence NAK": 1}, ServerSees: moves{"bad_icrc": 1, "lost before": 1, "sent again": 5, "sequence NAK": 1, "wrong ICRC": 1},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 1}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 1},
	},
	{
		Name: "ECN on a WRITE middle", Server: write, Client: write + to, Rule: "ecn " + middle, Effect: Effect{Lost: 1, Made: 1}, Alters: onlyMarked,
		Differs:     moves{"marked " + theMiddle: 1},
		ServerSees:  moves{"marked": 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},

	{
		Name: "drop of an ACK", Server: unacked, Client: unacked + to, Rule: "drop " + ack, Effect: Effect{Lost: 1},
		Differs:    moves{"lost " + theACK: 1},
		ClientSees: moves{"sent again": 8, "timeout": 1}, ServerSees: moves{"resent_after_ack": 1, "sent again": 8},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 8, "out_of_seq_request": 0},
	},
	{
		Name: "duplicate of an ACK", Server: write, Client: write + to, Rule: "duplicate " + ack, Effect: Effect{Made: 1},
		Differs:     moves{"duplicated " + theACK: 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_pkts": 6, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0, "rcvd_pkts": 40},
	},
	{
		Name: "reorder of an ACK", Server: writes, Client: writes + to, Rule: "reorder by=1 " + ack, Effect: Effect{Late: 1},
		Differs:     moves{"reordered " + theACK: 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},
	{
		Name: "delay of an ACK", Server: write, Client: write + to, Rule: "delay time=100ms " + ack, Struck: 1, Delay: 100 * time.Millisecond,
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},
	{
		Name: "corruption of an ACK", Server: unacked, Client: unacked + to, Rule: "corrupt where=transport bit=127 " + ack, Effect: Effect{Lost: 1, Made: 1}, Alters: lowestBitOf(msn),
		Differs:    moves{"changed " + theACK: 1},
		ClientSees: moves{"bad_icrc": 1, "sent again": 8, "timeout": 1, "wrong ICRC": 1}, ServerSees: moves{"resent_after_ack": 1, "sent again": 8},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 8, "out_of_seq_request": 0},
	},
	{
		Name: "ECN on an ACK", Server: write, Client: write + to, Rule: "ecn " + ack, Effect: Effect{Lost: 1, Made: 1}, Alters: onlyMarked,
		Differs:     moves{"marked " + theACK: 1},
		ClientSees:  moves{"marked": 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},

	{
		Name: "drop of a READ response", Server: unread, Client: unread + to, Rule: "drop " + response, Effect: Effect{Lost: 1},
		Differs:    moves{"lost " + theResponse: 1},
		ClientSees: moves{"lost before": 1, "response_lost_before_tap": 1, "sent again": 6, "timeout": 1}, ServerSees: moves{"lost behind": 1, "response_lost_behind_tap": 1, "sent again": 6},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 1, "out_of_seq_request": 0},
	},
	{
		Name: "duplicate of a READ response", Server: read5, Client: read5 + to, Rule: "duplicate " + response, Effect: Effect{Made: 1},
		Differs:     moves{"duplicated " + theResponse: 1},
		ClientSees:  moves{"doubled": 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_pkts": 41, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0, "rcvd_pkts": 5},
	},
	{
		Name: "reorder of a READ response", Server: unread, Client: unread + to, Rule: "reorder by=1 " + response, Effect: Effect{Late: 1},
		Differs:    moves{"reordered " + theResponse: 1},
		ClientSees: moves{"reordered": 1, "sent again": 5, "timeout": 1}, ServerSees: moves{"lost behind": 1, "response_lost_behind_tap": 1, "sent again": 5},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 1, "out_of_seq_request": 0},
	},
	{
		Name: "delay of a READ response", Server: unread, Client: unread + to, Rule: "delay time=100ms " + response, Struck: 1, Effect: Effect{Late: 1}, Delay: 100 * time.Millisecond,
		Differs:    moves{"reordered " + theResponse: 1},
		ClientSees: moves{"reordered": 1, "sent again": 5, "timeout": 1}, ServerSees: moves{"lost behind": 1, "response_lost_behind_tap": 1, "sent again": 5},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 1, "out_of_seq_request": 0},
	},
	{
		Name: "corruption of a READ response", Server: unread, Client: unread + to, Rule: "corrupt where=payload bit=7 " + response, Effect: Effect{Lost: 1, Made: 1}, Alters: lowestBitOf(payload),
		Differs:    moves{"changed " + theResponse: 1},
		ClientSees: moves{"bad_icrc": 1, "lost before": 1, "response_lost_before_tap": 1, "sent again": 6, "timeout": 1, "wrong ICRC": 1}, ServerSees: moves{"lost behind": 1, "response_lost_behind_tap": 1, "sent again": 6},
		ClientMoves: moves{"completer_retry_err": 1, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 1, "out_of_seq_request": 0},
	},
	{
		Name: "ECN on a READ response", Server: read5, Client: read5 + to, Rule: "ecn " + response, Effect: Effect{Lost: 1, Made: 1}, Alters: onlyMarked,
		Differs:     moves{"marked " + theResponse: 1},
		ClientSees:  moves{"marked": 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},

	{
		Name: "drop of a CM message", Server: listener, Client: caller, Rule: "drop " + request, Effect: Effect{Lost: 1},
		Differs:     moves{"lost " + theRequest: 1},
		ClientSees:  moves{"cm_resent": 1},
		ClientMoves: moves{"rdma_recvs": 8, "rdma_sends": 10}, ServerMoves: moves{"rdma_recvs": 9, "rdma_sends": 8},
	},
	{
		Name: "duplicate of a CM message", Server: listener, Client: caller, Rule: "duplicate " + request, Effect: Effect{Made: 1},
		Differs:     moves{"duplicated " + theRequest: 1},
		ServerSees:  moves{"cm_resent": 1},
		ClientMoves: moves{"rdma_recvs": 9, "rdma_sends": 9}, ServerMoves: moves{"rdma_recvs": 10, "rdma_sends": 9},
	},
	{
		Name: "reorder of a CM message", Server: two, Client: two + to, Rule: "reorder by=1 " + first, Effect: Effect{Late: 1},
		Differs:     moves{"reordered " + theRequest: 1},
		ClientMoves: moves{"completer_retry_err": 0, "rcvd_seq_err": 0}, ServerMoves: moves{"duplicate_request": 0, "out_of_seq_request": 0},
	},
	{
		Name: "reorder of a CM message with the first SEND", Server: listener, Client: caller, Rule: "reorder by=1 " + ready, Effect: Effect{Late: 1},
		ClientMoves: moves{"rdma_recvs": 8, "rdma_sends": 9}, ServerMoves: moves{"rdma_recvs": 9, "rdma_sends": 8},
	},
	{
		Name: "delay of a CM message", Server: listener, Client: caller, Rule: "delay time=100ms " + request, Delay: 100 * time.Millisecond,
		ClientMoves: moves{"rdma_recvs": 8, "rdma_sends": 9}, ServerMoves: moves{"rdma_recvs": 9, "rdma_sends": 8},
	},
	{
		Name: "corruption of a CM message", Server: listener, Client: caller, Rule: "corrupt where=payload bit=7 " + request, Effect: Effect{Lost: 1, Made: 1}, Alters: lowestBitOf(mad),
		Differs:    moves{"changed " + theRequest: 1},
		ClientSees: moves{"cm_resent": 1}, ServerSees: moves{"bad_icrc": 1},
		ClientMoves: moves{"rdma_recvs": 8, "rdma_sends": 10}, ServerMoves: moves{"rdma_recvs": 9, "rdma_sends": 8},
	},
	{
		Name: "ECN on a CM message", Server: listener, Client: caller, Rule: "ecn " + request, Effect: Effect{Lost: 1, Made: 1}, Alters: onlyMarked,
		Differs:     moves{"marked " + theRequest: 1},
		ClientMoves: moves{"rdma_recvs": 8, "rdma_sends": 9}, ServerMoves: moves{"rdma_recvs": 9, "rdma_sends": 8},
	},
}
