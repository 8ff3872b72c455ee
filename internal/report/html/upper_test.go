package html

import (
	"testing"

	"github.com/rocescope/rocescope/internal/report"
)

func TestCarries(t *testing.T) {
	queue := 1
	u := &report.ConnectionUpper{
		Protocol: "nvme", KnownBy: "an NVMe command", Queue: &queue,
		AToB: report.UpperRequests{Requests: 10},
		BToA: report.UpperRequests{Answers: 9, Failed: 1, DataTransfers: 4, Latency: &report.UpperLatency{Count: 9, Min: 1000, Mean: 2000, Max: 3000}},
	}
	const want = "Carries NVMe over RDMA, queue 1 (known by: an NVMe command): a sent 10 requests and 0 answers; " +
		"b sent 0 requests and 9 answers, 1 of which told an error, 2.00 us after the request on average (1.00 us to 3.00 us), and moved data 4 times"
	if got := carries(u); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := carries(nil); got != "" {
		t.Errorf("without an upper protocol: %q", got)
	}
}
