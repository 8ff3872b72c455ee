package metrics

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// contentType is that of the text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// Server answers scrapes.
type Server struct {
	listener net.Listener
	http     *http.Server
	mu       sync.Mutex
	collect  []func(*Page)
}

// Listen opens the address, so that privileges may be dropped before the first scrape is answered.
func Listen(addr string) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve counters for Prometheus: %w", err)
	}
	return &Server{listener: l}, nil
}

// Addr is where the server is.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Collect adds a part of the page. It is called for each scrape, one at a time.
func (s *Server) Collect(part func(*Page)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collect = append(s.collect, part)
}

// Start begins to answer.
func (s *Server) Start() {
	s.http = &http.Server{
		ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		Handler: http.HandlerFunc(s.answer),
	}
	go func() { _ = s.http.Serve(s.listener) }() // ends with Close
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		http.Error(w, "counters for Prometheus are at /metrics", http.StatusNotFound)
		return
	}
	var p Page
	s.mu.Lock()
	for _, part := range s.collect {
		part(&p)
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(p.text) // a scraper that went away does not matter
}

// Close ends it.
func (s *Server) Close() error {
	if s.http == nil {
		return s.listener.Close()
	}
	return s.http.Close()
}
