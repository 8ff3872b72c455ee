// Package inline holds `rocescope wire` to its word: two guests of the laboratory run unmodified programs through it, each row with
// one rule, and what went in at one side, what came out at the other, and what the guests counted must differ by just that.
package inline

// Row is one run of a program between two guests. The first guest is the client, and way=out is from it to the second.
type Row struct {
	Name           string
	Server, Client string // programs and arguments; {it}: the server's address
	Rule           string // empty: nothing is done to any packet
	Lost, Made     int    // packets that went in and did not come out as they were, and that came out and had not gone in as that
	Late           int    // packets that others overtook
	// ClientMoves and ServerMoves are by how much the guests' counters move; others may move as they like.
	ClientMoves, ServerMoves map[string]int64
	Smoke                    bool
}

const (
	writeServer = "ib_write_bw -d rxe0 -x 1 -m 1024 -s 8192 -n 5 -t 1 -Q 1 -u 21 -F"
	readServer  = "ib_read_bw -d rxe0 -x 1 -m 1024 -s 8192 -n 5 -t 1 -Q 1 -u 21 -o 1 -F"
	rpingServer = "rping -s -a 10.77.0.3 -v -C 3 -S 200"
	rpingClient = "rping -c -a {it} -v -C 3 -S 200"
)

const middle, ack = "bth.opcode == RC_RDMA_WRITE_MIDDLE", "bth.opcode == RC_ACKNOWLEDGE"

// Table is all that is run.
var Table = []Row{
	{Name: "no rule, perftest WRITE", Server: writeServer, Client: writeServer + " {it}", Smoke: true},
	{Name: "no rule, perftest READ", Server: readServer, Client: readServer + " {it}"},
	{Name: "no rule, rping", Server: rpingServer, Client: rpingClient},
	{
		Name: "drop of the 3rd WRITE middle", Server: writeServer, Client: writeServer + " {it}", Rule: "drop nth=3 way=out when " + middle,
		Lost: 1, ServerMoves: map[string]int64{"out_of_seq_request": 1}, ClientMoves: map[string]int64{"rcvd_seq_err": 1}, Smoke: true,
	},
	{
		Name: "duplicate of the 3rd WRITE middle", Server: writeServer, Client: writeServer + " {it}", Rule: "duplicate nth=3 way=out when " + middle,
		Made: 1, ServerMoves: map[string]int64{"duplicate_request": 1, "out_of_seq_request": 0},
	},
	{
		Name: "reorder of the 3rd WRITE middle", Server: writeServer, Client: writeServer + " {it}", Rule: "reorder by=1 nth=3 way=out when " + middle,
		// Two NAKs: the packet that overtakes it is not kept, so that there is a gap again behind the late one.
		Late: 1, ServerMoves: map[string]int64{"out_of_seq_request": 2},
	},
	{
		Name: "corruption of the 3rd WRITE middle", Server: writeServer, Client: writeServer + " {it}", Rule: "corrupt where=payload bit=7 nth=3 way=out when " + middle,
		Lost: 1, Made: 1, ServerMoves: map[string]int64{"out_of_seq_request": 1},
	},
	{
		Name: "ECN on the 3rd WRITE middle", Server: writeServer, Client: writeServer + " {it}", Rule: "ecn nth=3 way=out when " + middle,
		Lost: 1, Made: 1, ServerMoves: map[string]int64{"out_of_seq_request": 0, "duplicate_request": 0},
	},
	{
		Name: "delay of the 2nd ACK", Server: writeServer, Client: writeServer + " {it}", Rule: "delay time=50ms nth=2 way=in when " + ack,
		ServerMoves: map[string]int64{"out_of_seq_request": 0, "duplicate_request": 0},
	},
	{
		Name: "drop of the 2nd ACK", Server: writeServer, Client: writeServer + " {it}", Rule: "drop nth=2 way=in when " + ack,
		Lost: 1, ServerMoves: map[string]int64{"out_of_seq_request": 0},
	},
	{
		Name: "drop of the 3rd READ response", Server: readServer, Client: readServer + " {it}",
		Rule: "drop nth=3 way=in when bth.opcode == RC_RDMA_READ_RESPONSE_MIDDLE", Lost: 1,
	},
	{
		Name: "drop of the first CM message", Server: rpingServer, Client: rpingClient, Rule: "drop nth=1 way=out when infiniband.mad",
		Lost: 1,
	},
	{
		Name: "duplicate of the first CM message", Server: rpingServer, Client: rpingClient, Rule: "duplicate nth=1 way=out when infiniband.mad",
		Made: 1,
	},
}
