#!/usr/bin/env python3
"""A hook for a core that is driven by registers: a template.

`rocescope test ADDRESS --hook './register_core_hook.py'` asks one thing a line, as JSON, and wants one line of JSON for each;
docs/suites.md describes them. Fill in the methods of Core for the registers, or the driver, of yours; what a core never does
raises Unsupported, and the cases that need it are skipped.
"""
import base64
import json
import sys


class Unsupported(Exception):
    pass


class Core:
    """One core. The register numbers here are made up."""

    SIZE = 65536  # of its memory that peers may write and read

    def __init__(self):
        self.qps = {}

    def write_register(self, address, value):
        raise Unsupported("no bus is connected: map it here, for instance by mmap of /dev/uio0")

    def hello(self, c):
        return {"name": "a core with registers"}

    def reset(self, c):
        self.write_register(0x00, 1)
        self.qps.clear()
        return {}

    def create(self, c):
        number = len(self.qps) + 2
        self.qps[c["qp"]] = number
        self.write_register(0x100 + 0x40 * number, c.get("mtu", 1024))
        return {"numbers": {"address": "192.0.2.2", "mac": "02:00:00:00:00:02", "qpn": number, "psn": c.get("psn") or 0,
                            "rkey": 0x1234, "va": 0x10000000, "length": self.SIZE}}

    def connect(self, c):
        number, far = self.qps[c["qp"]], c["remote"]
        self.write_register(0x104 + 0x40 * number, far["qpn"])
        self.write_register(0x108 + 0x40 * number, far["psn"])
        return {}

    def post(self, c):
        number = self.qps[c["qp"]]
        for i in range(c.get("count", 1)):
            self.write_register(0x120 + 0x40 * number, c["va"] + i * c["length"])
            self.write_register(0x128 + 0x40 * number, c["length"])
            self.write_register(0x12C + 0x40 * number, 1)
        return {}

    def completions(self, c):
        return {"state": "RTS", "completions": []}

    def memory(self, c):
        """Tells length bytes of "region", "source", "sink" or "receive" from offset, or writes data there."""
        raise Unsupported("its memory cannot be read")

    def counters(self, c):
        return {"counters": {}}


def answer(core, line):
    try:
        command = json.loads(line)
        do = getattr(core, command["do"], None)
        if do is None or command["do"].startswith("_"):
            raise Unsupported(command["do"])
        reply = do(command)
        if isinstance(reply.get("data"), bytes):
            reply["data"] = base64.b64encode(reply["data"]).decode()
        return reply
    except Unsupported as e:
        return {"unsupported": True, "error": str(e)}
    except Exception as e:  # the suite shows it
        return {"error": f"{type(e).__name__}: {e}"}


if __name__ == "__main__":
    core = Core()
    for line in sys.stdin:
        print(json.dumps(answer(core, line)), flush=True)
