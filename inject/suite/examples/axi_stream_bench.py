"""A cocotb bench that puts a core with AXI-Stream ports behind rocescope's pipe.

The core has s_axis_* (frames in) and m_axis_* (frames out), each with tdata, tkeep, tlast, tvalid and tready, of any width, and a
clock clk. The bench reads the pipe from standard input and writes it to file descriptor 3, for what cocotb and the simulator print
goes to standard output. With Icarus Verilog, in the folder of this file and the core:

    iverilog -g2012 -o core.vvp -s axi_stream_echo axi_stream_echo.v
    rocescope test --hook ./register_core_hook.py --pipe './axi_stream_bench.sh core.vvp axi_stream_echo'

READY says how often the bench takes a beat of the core's: 1.0 always, less to press back; SEED makes it another series.
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
LONGEST = 9022


def now():
    return int(get_sim_time("ns"))


def high(signal):
    """Before a reset signals are neither high nor low."""
    return str(signal.value) == "1"


class Pipe:
    def __init__(self):
        self.out = os.fdopen(3, "wb")

    def put(self, kind, time, body=b""):
        self.out.write(struct.pack("<IB3xQ", len(body), kind, time) + body)

    def get(self):
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
        """Drives frames into the core from their time on, a beat for each clock in which it is ready."""
        d = self.dut
        d.s_axis_tvalid.value = 0
        while True:
            await RisingEdge(d.clk)
            if not self.waiting or self.waiting[0][0] > now():
                continue
            frame = self.waiting.pop(0)[1]
            for at in range(0, len(frame), self.width):
                beat = frame[at:at + self.width]
                d.s_axis_tdata.value = int.from_bytes(beat.ljust(self.width, b"\0"), "little")
                d.s_axis_tkeep.value = (1 << len(beat)) - 1
                d.s_axis_tlast.value = int(at + self.width >= len(frame))
                d.s_axis_tvalid.value = 1
                taken = False
                while not taken:
                    await ReadOnly()
                    taken = high(d.s_axis_tready)
                    await RisingEdge(d.clk)
            d.s_axis_tvalid.value = 0

    async def drain(self):
        """Collects the core's frames, with back-pressure."""
        d, frame = self.dut, bytearray()
        while True:
            d.m_axis_tready.value = int(random.random() < READY)
            await ReadOnly()
            if high(d.m_axis_tvalid) and high(d.m_axis_tready):
                beat = int(d.m_axis_tdata.value).to_bytes(self.width, "little")
                frame += beat[:bin(int(d.m_axis_tkeep.value)).count("1")]
                if high(d.m_axis_tlast):
                    self.left.append((now() + PERIOD, bytes(frame)))
                    frame.clear()
            await RisingEdge(d.clk)


@cocotb.test()
async def pipe(dut):
    random.seed(int(os.environ.get("SEED", "1")))
    p, bench = Pipe(), Bench(dut)
    cocotb.start_soon(Clock(dut.clk, PERIOD, "ns").start())
    cocotb.start_soon(bench.feed())
    cocotb.start_soon(bench.drain())
    p.put(HELLO, 0, struct.pack("<II", 1, LONGEST))
    p.out.flush()
    while True:
        kind, time, body = p.get()
        if kind == END:
            return
        if kind == FRAME:
            bench.waiting.append((time, body))
        elif kind == ADVANCE:
            while now() < time and not bench.left:
                await RisingEdge(dut.clk)
            for at, frame in bench.left:
                p.put(FRAME, min(at, now()), frame)
            bench.left.clear()
            p.put(REACHED, now())
            p.out.flush()
