package tui

// beginning goes to a view and to a packet as soon as the capture is read so far.
func beginning(view string, at uint64) func(*screen) bool {
	return func(s *screen) bool {
		if at > s.status.packets && !s.status.done {
			return false
		}
		at = min(at, s.status.packets)
		switch action(view) {
		case doPackets, "":
			s.goFrame(max(at, 1))
		case doLadder:
			rows := s.ses.rows([]uint64{max(at, 1)})
			p := place{frame: at}
			if len(rows) > 0 {
				p.conn = s.ses.index.Connection(rows[0].Mark.Conn)
			}
			if p.conn == 0 && len(s.snapshot().Connections) > 0 {
				p.conn = s.snapshot().Connections[0].ID
			}
			if s.connection(p.conn) == nil {
				return s.status.done
			}
			s.push(newLadder(p.conn, p.frame))
		default:
			s.do(action(view))
		}
		return true
	}
}
