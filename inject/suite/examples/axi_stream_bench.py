"""A cocotb bench that puts a core with AXI-Stream ports behind rocescope's pipe.

The core has s_axis_* (frames in) and m_axis_* (frames out), each with tdata, tkeep, tlast, tvalid and tready, and a clock clk. Run it as
any cocotb test, with standard input and output left to it, as the command of `rocescope test --pipe`; what the simulator itself
prints has to go to a file. READY says how often the bench takes a beat of the core's: 1.0 always, less to press back.
"""
import os
import random
import struct
import sys

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from cocotb.utils import get_sim_time

HELLO, FRAME, ADVANCE, REACHED, END = 1, 2, 3, 4, 5
READY = float(os.environ.get("READY", "1.0"))
PERIOD = 4  # nanoseconds


def now():
    return int(get_sim_time("ns"))


def put(kind, time, body=b""):
    sys.stdout.buffer.write(struct.pack("<IB3xQ", len(body), kind, time) + body)


def get():
    header = sys.stdin.buffer.read(16)
    if len(header) < 16:
        return END, 0, b""
    length, kind, time = struct.unpack("<IB3xQ", header)
    return kind, time, sys.stdin.buffer.read(length)


class Bench:
    def __init__(self, dut):
        self.dut = dut
        self.width = len(dut.s_axis_tdata) // 8
        self.waiting, self.left = [], []

    async def feed(self):
        """Drives frames into the core, a beat for each clock in which it is ready."""
        d = self.dut
        d.s_axis_tvalid.value = 0
        while True:
            await RisingEdge(d.clk)
            if not self.waiting:
                continue
            frame = self.waiting.pop(0)
            for at in range(0, len(frame), self.width):
                beat = frame[at:at + self.width]
                d.s_axis_tdata.value = int.from_bytes(beat.ljust(self.width, b"\0"), "little")
                d.s_axis_tkeep.value = (1 << len(beat)) - 1
                d.s_axis_tlast.value = int(at + self.width >= len(frame))
                d.s_axis_tvalid.value = 1
                while True:
                    await ReadOnly()
                    taken = int(d.s_axis_tready.value)
                    await RisingEdge(d.clk)
                    if taken:
                        break
            d.s_axis_tvalid.value = 0

    async def drain(self):
        """Collects the core's frames, with back-pressure."""
        d, frame = self.dut, bytearray()
        while True:
            d.m_axis_tready.value = int(random.random() < READY)
            await ReadOnly()
            moves = int(d.m_axis_tvalid.value) and int(d.m_axis_tready.value)
            if moves:
                data = int(d.m_axis_tdata.value).to_bytes(self.width, "little")
                frame += data[:bin(int(d.m_axis_tkeep.value)).count("1")]
                if int(d.m_axis_tlast.value):
                    self.left.append((now(), bytes(frame)))
                    frame.clear()
            await RisingEdge(d.clk)


@cocotb.test()
async def pipe(dut):
    random.seed(1)
    cocotb.start_soon(Clock(dut.clk, PERIOD, units="ns").start())
    bench = Bench(dut)
    cocotb.start_soon(bench.feed())
    cocotb.start_soon(bench.drain())
    put(HELLO, 0, struct.pack("<II", 1, 9022))
    sys.stdout.buffer.flush()
    while True:
        kind, time, body = get()
        if kind == END:
            return
        if kind == FRAME:
            bench.waiting.append(body)
        elif kind == ADVANCE:
            while now() < time and not bench.left:
                await RisingEdge(dut.clk)
            for at, frame in bench.left:
                put(FRAME, at, frame)
            bench.left.clear()
            put(REACHED, now())
            sys.stdout.buffer.flush()
