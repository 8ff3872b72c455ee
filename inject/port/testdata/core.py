#!/usr/bin/env python3
"""A simulated core behind a pipe: it sends each frame back, 300 ns after it arrived.

The other side of port.PipeHello's format, as a test bench would have it. In cocotb, run() is a coroutine: feed() drives the
core's AXI-Stream input, the loop in advance() awaits clock edges, and a monitor of its output appends to left.
"""
import struct
import sys

HELLO, FRAME, ADVANCE, REACHED, END = 1, 2, 3, 4, 5
FOREVER = 2**64 - 1


class Core:
    def __init__(self):
        self.now = 0
        self.queue = []  # (time, frame) that will leave

    def feed(self, time, frame):
        self.queue.append((max(time, self.now) + 300, frame[6:12] + frame[0:6] + frame[12:]))

    def advance(self, until):
        """Runs until a time or until a frame has left; returns the frames that did."""
        if not self.queue or self.queue[0][0] > until:
            self.now = until
            return []
        time, frame = self.queue.pop(0)
        self.now = max(self.now, time)
        return [(self.now, frame)]

    def idle(self):
        """The time before which nothing happens unless a frame comes."""
        return self.queue[0][0] if self.queue else FOREVER


def send(out, kind, time, body=b""):
    out.write(struct.pack("<IB3xQ", len(body), kind, time) + body)


def run(core, inp, out):
    send(out, HELLO, 0, struct.pack("<II", 1, 9022))
    while header := inp.read(16):
        length, kind, time = struct.unpack("<IB3xQ", header)
        body = inp.read(length)
        if kind == FRAME:
            core.feed(time, body)
        elif kind == ADVANCE:
            for left, frame in core.advance(time):
                send(out, FRAME, left, frame)
            send(out, REACHED, core.now, struct.pack("<Q", core.idle()))
            out.flush()
        elif kind == END:
            return


if __name__ == "__main__":
    run(Core(), sys.stdin.buffer, sys.stdout.buffer)
