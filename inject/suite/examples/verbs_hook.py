#!/usr/bin/env python3
"""A hook for any RDMA device that Linux has a driver for, by pyverbs (Debian: python3-pyverbs).

On the machine with the device, for instance of this address:

    rocescope test 10.9.0.2 --hook 'ssh 10.9.0.2 ./verbs_hook.py --address 10.9.0.2'

With --listen PORT it takes one connection by TCP instead of standard input and output; docs/suites.md describes what is asked.
"""
import base64
import json
import os
import random
import socket
import sys

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

REGION, OTHER, SLOTS, QKEY = 65536, 4096, 64, 0x51117E
LOCAL, WRITE = e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_REMOTE_WRITE
READ, ATOMIC = e.IBV_ACCESS_REMOTE_READ, e.IBV_ACCESS_REMOTE_ATOMIC
ALL = LOCAL | WRITE | READ | ATOMIC
TYPES = {"RC": e.IBV_QPT_RC, "UC": e.IBV_QPT_UC, "UD": e.IBV_QPT_UD}
MTUS = {256: e.IBV_MTU_256, 512: e.IBV_MTU_512, 1024: e.IBV_MTU_1024, 2048: e.IBV_MTU_2048, 4096: e.IBV_MTU_4096}
RIGHTS = {"write": WRITE, "read": READ, "atomic": ATOMIC}
OPERATIONS = {
    "write": e.IBV_WR_RDMA_WRITE, "write-imm": e.IBV_WR_RDMA_WRITE_WITH_IMM, "read": e.IBV_WR_RDMA_READ,
    "send": e.IBV_WR_SEND, "send-imm": e.IBV_WR_SEND_WITH_IMM,
    "compare-swap": e.IBV_WR_ATOMIC_CMP_AND_SWP, "fetch-add": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
}
STATES = {value: name[len("IBV_QPS_"):] for name, value in vars(e).items() if name.startswith("IBV_QPS_")}
STATUSES = {value: name[len("IBV_WC_"):] for name, value in vars(e).items() if name.startswith("IBV_WC_") and
            (name.endswith("_ERR") or name == "IBV_WC_SUCCESS")}


class Unsupported(Exception):
    pass


class QueuePair:
    """A queue pair with its completion queues and receive buffers."""

    def __init__(self, d, c):
        self.c, self.d = c, d
        self.kind = TYPES[c.get("transport") or "RC"]
        self.send, self.recv = CQ(d.context, 1024), CQ(d.context, max(c.get("cq", 0), 1))
        self.size = max(c.get("receive_size", 0), 1)
        self.head = 40 if self.kind == e.IBV_QPT_UD else 0  # room for the GRH
        self.buffers = MR(d.pd, SLOTS * (self.size + self.head), LOCAL)
        self.buffers.write(bytes(SLOTS * (self.size + self.head)), SLOTS * (self.size + self.head))
        self.srq = SRQ(d.pd, SrqInitAttr(SrqAttr(max_wr=SLOTS, max_sge=1))) if c.get("srq") else None
        self.slot = self.source = self.sink = 0
        self.ah = self.remote = None
        self.qp = QP(d.pd, QPInitAttr(qp_type=self.kind, scq=self.send, rcq=self.recv, srq=self.srq,
                                      cap=QPCap(max_send_wr=512, max_recv_wr=SLOTS), sq_sig_all=1))
        a, mask = QPAttr(qp_state=e.IBV_QPS_INIT), e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT
        a.pkey_index, a.port_num = 0, d.port
        if self.kind == e.IBV_QPT_UD:
            a.qkey, mask = QKEY, mask | e.IBV_QP_QKEY
        else:
            rights = sum(RIGHTS[r] for r in c.get("access") or [])
            a.qp_access_flags = rights & WRITE if self.kind == e.IBV_QPT_UC else rights
            mask |= e.IBV_QP_ACCESS_FLAGS
        self.qp.modify(a, mask)
        self.receive(c.get("receives", 0))
        psn = c.get("psn")
        self.psn = random.getrandbits(24) if psn is None else psn

    def receive(self, n):
        for _ in range(n):
            at = self.buffers.buf + self.slot % SLOTS * (self.size + self.head)
            key = self.buffers.lkey ^ (0xFF if self.c.get("bad_receive") else 0)
            (self.srq or self.qp).post_recv(RecvWR(wr_id=self.slot, num_sge=1, sg=[SGE(at, self.size + self.head, key)]))
            self.slot += 1

    def connect(self, c):
        far = c["remote"]
        v6 = ":" in far["address"]
        gr = GlobalRoute(dgid=GID(gid_of(far["address"])), sgid_index=self.d.gids[v6][0], hop_limit=64)
        ah = AHAttr(gr=gr, is_global=1, port_num=self.d.port)
        a, mask = QPAttr(qp_state=e.IBV_QPS_RTR), e.IBV_QP_STATE
        if self.kind != e.IBV_QPT_UD:
            a.ah_attr, a.path_mtu, a.dest_qp_num, a.rq_psn = ah, MTUS[self.c.get("mtu", 1024)], far["qpn"], far["psn"]
            mask |= e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
        if self.kind == e.IBV_QPT_RC:
            a.max_dest_rd_atomic, a.min_rnr_timer = max(self.c.get("depth", 0), 1), c.get("rnr_timer", 0)
            mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
        self.qp.modify(a, mask)
        a, mask = QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
        a.sq_psn = self.psn
        if self.kind == e.IBV_QPT_RC:
            a.timeout, a.retry_cnt, a.rnr_retry = c.get("timeout", 0), c.get("retries", 0), c.get("rnr_retries", 0)
            a.max_rd_atomic = max(self.c.get("device_depth", 0), 1)
            mask |= e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
        self.qp.modify(a, mask)
        self.remote = far
        if self.kind == e.IBV_QPT_UD:
            self.ah = AH(self.d.pd, attr=ah)

    def post(self, c):
        op = OPERATIONS[c["operation"]]
        atomic = op in (e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD)
        n = 8 if atomic else c.get("length", 0)
        for i in range(max(c.get("count", 0), 1)):
            which = "sink" if atomic or op == e.IBV_WR_RDMA_READ else "source"
            mr = getattr(self.d, which)
            at = getattr(self, which)
            if at + n > REGION:
                at = 0
            setattr(self, which, at + n)
            key = mr.lkey ^ (0xFF if c.get("bad_key") else 0)
            wr = SendWR(wr_id=i, opcode=op, num_sge=1, sg=[SGE(mr.buf + at, n, key)], imm_data=socket.htonl(i + 1), send_flags=e.IBV_SEND_SIGNALED)
            va, rkey = c.get("va", 0), c.get("rkey", 0)
            if atomic:
                add, compare = c.get("add", 0), c.get("compare", 0)
                if op == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
                    add, compare = 0, add
                wr.set_wr_atomic(rkey, va, compare, add)
            elif self.kind == e.IBV_QPT_UD:
                wr.set_wr_ud(self.ah, self.remote["qpn"], QKEY)
            elif "send" not in c["operation"]:
                wr.set_wr_rdma(rkey, va + i * n % REGION if va else 0)
            self.qp.post_send(wr)

    def completions(self):
        done = []
        for cq in (self.send, self.recv):
            while True:
                n, list_ = cq.poll(64)
                if n == 0:
                    break
                for w in list_:
                    one = {"status": STATUSES.get(w.status, str(w.status)), "receive": cq is self.recv}
                    if w.status == e.IBV_WC_SUCCESS:
                        one["length"] = max(w.byte_len - (self.head if cq is self.recv else 0), 0)
                        if w.wc_flags & e.IBV_WC_WITH_IMM:
                            one["imm"] = socket.ntohl(w.imm_data & 0xFFFFFFFF)
                    done.append(one)
        return {"state": STATES[self.qp.query(e.IBV_QP_STATE)[0].qp_state], "completions": done}

    def close(self):
        for part in (self.ah, self.qp, self.srq, self.send, self.recv, self.buffers):
            if part is not None:
                part.close()


def gid_of(address):
    packed = socket.inet_pton(socket.AF_INET6, address if ":" in address else "::ffff:" + address)
    return ":".join(packed[i:i + 2].hex() for i in range(0, 16, 2))


class Device:
    """The device that has the address, and the memory that peers may write and read."""

    def __init__(self, address):
        self.port = 1
        self.context, self.name, gids = self.find(address)
        self.gids = {}  # index and address, by whether it is IPv6
        for text, index in gids.items():
            packed = bytes.fromhex(text.replace(":", ""))
            if packed[:12] == bytes(10) + b"\xff\xff":
                self.gids[False] = index, socket.inet_ntop(socket.AF_INET, packed[12:])
            elif packed[:2] != b"\xfe\x80":
                self.gids[True] = index, socket.inet_ntop(socket.AF_INET6, packed)
        self.qps = {}
        self.begin()

    def find(self, address):
        for d in get_device_list():
            name = d.name.decode()
            gids, folder = {}, f"/sys/class/infiniband/{name}/ports/{self.port}/gids"
            for i in sorted(os.listdir(folder), key=int):
                with open(f"{folder}/{i}") as f:
                    text = f.read().strip()
                with_type = f"/sys/class/infiniband/{name}/ports/{self.port}/gid_attrs/types/{i}"
                try:
                    with open(with_type) as f:
                        if "v2" in f.read():
                            gids[text] = int(i)
                except OSError:
                    continue
            if gid_of(address) in gids:
                return Context(name=name), name, gids
        raise SystemExit(f"verbs_hook: no RDMA device has the address {address}: rdma link shows them")

    def begin(self):
        self.pd, self.other = PD(self.context), PD(self.context)
        self.region, self.source, self.sink = MR(self.pd, REGION, ALL), MR(self.pd, REGION, LOCAL), MR(self.pd, REGION, LOCAL)
        self.keys = {
            "foreign": MR(self.other, OTHER, ALL), "readonly": MR(self.pd, OTHER, LOCAL | READ), "writeonly": MR(self.pd, OTHER, LOCAL | WRITE),
            "stale": MR(self.pd, OTHER, ALL), "doomed": MR(self.pd, OTHER, ALL),
        }
        for mr, n in [(self.region, REGION), (self.source, REGION), (self.sink, REGION)] + [(m, OTHER) for m in self.keys.values()]:
            mr.write(random.randbytes(n), n)
        self.numbers = {name: {"rkey": m.rkey, "va": m.buf, "length": OTHER} for name, m in self.keys.items()}
        self.keys.pop("stale").close()

    def hello(self, c):
        return {"name": f"{self.name} of {os.uname().nodename}, Linux {os.uname().release}"}

    def reset(self, c):
        for q in self.qps.values():
            q.close()
        self.qps.clear()
        for m in list(self.keys.values()) + [self.region, self.source, self.sink]:
            m.close()
        self.pd.close()
        self.other.close()
        self.begin()
        return {}

    def create(self, c):
        self.destroy(c)
        v6 = bool(c.get("ipv6"))
        if v6 not in self.gids:
            raise Unsupported("the device has no such address")
        if "doomed" not in self.keys:  # a case before this one took it
            m = self.keys["doomed"] = MR(self.pd, OTHER, ALL)
            m.write(random.randbytes(OTHER), OTHER)
            self.numbers["doomed"] = {"rkey": m.rkey, "va": m.buf, "length": OTHER}
        if c.get("huge") and "huge" not in self.keys:
            try:
                m = self.keys["huge"] = MR(self.pd, c["huge"], ALL)
                self.numbers["huge"] = {"rkey": m.rkey, "va": m.buf, "length": c["huge"]}
            except Exception as problem:
                raise Unsupported(f"no memory of {c['huge']} bytes can be registered: {problem}")
        q = self.qps[c["qp"]] = QueuePair(self, c)
        common = {"address": self.gids[v6][1], "qpn": q.qp.qp_num, "psn": q.psn}
        keys = {name: common | n for name, n in self.numbers.items()}
        keys["receive"] = common | {"rkey": q.buffers.rkey, "va": q.buffers.buf, "length": SLOTS * (q.size + q.head)}
        return {"numbers": common | {"rkey": self.region.rkey, "va": self.region.buf, "length": REGION}, "keys": keys}

    def connect(self, c):
        self.qps[c["qp"]].connect(c)
        return {}

    def receive(self, c):
        self.qps[c["qp"]].receive(c.get("receives", 0))
        return {}

    def post(self, c):
        self.qps[c["qp"]].post(c)
        return {}

    def completions(self, c):
        return self.qps[c["qp"]].completions()

    def memory(self, c):
        name = c.get("memory") or "region"
        at, n = c.get("offset", 0), c.get("length", 0)
        if name == "receive":
            q = self.qps[c["qp"]]
            mr, size = q.buffers, SLOTS * (q.size + q.head)
        elif name in ("region", "source", "sink"):
            mr, size = getattr(self, name), REGION
        else:
            mr, size = self.keys[name], self.numbers[name]["length"]
        data = base64.b64decode(c.get("data") or "")
        if at < 0 or at + max(n, len(data)) > size:
            raise ValueError(f"{name} has {size} bytes: {max(n, len(data))} at {at} are beyond")
        if data:
            mr.write(data, len(data), at)
            return {}
        return {"data": base64.b64encode(mr.read(n, at)).decode()}

    def deregister(self, c):
        self.keys.pop(c["memory"]).close()
        return {}

    def modify(self, c):
        if c.get("state") != "ERROR":
            raise Unsupported(c.get("state"))
        self.qps[c["qp"]].qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        return {}

    def destroy(self, c):
        q = self.qps.pop(c["qp"], None)
        if q is not None:
            q.close()
        return {}

    def counters(self, c):
        folder = f"/sys/class/infiniband/{self.name}/ports/{self.port}/hw_counters"
        found = {}
        for name in os.listdir(folder):
            with open(f"{folder}/{name}") as f:
                text = f.read().strip()
            if text.isdigit():
                found[name] = int(text)
        return {"counters": found}


COMMANDS = ("hello", "reset", "create", "connect", "receive", "post", "completions", "memory", "deregister", "modify", "destroy", "counters")


def answer(device, line):
    try:
        command = json.loads(line)
        if command["do"] not in COMMANDS:
            raise Unsupported(command["do"])
        return getattr(device, command["do"])(command)
    except Unsupported as problem:
        return {"unsupported": True, "error": str(problem)}
    except Exception as problem:  # the suite shows it
        return {"error": f"{type(problem).__name__}: {problem}"}


def serve(device, lines, out):
    for line in lines:
        out.write(json.dumps(answer(device, line)) + "\n")
        out.flush()


def main(args):
    options = dict(zip(args[::2], args[1::2]))
    if "--address" not in options or set(options) - {"--address", "--listen"}:
        raise SystemExit("usage: verbs_hook.py --address ADDRESS [--listen PORT]")
    device = Device(options["--address"])
    if "--listen" not in options:
        return serve(device, sys.stdin, sys.stdout)
    with socket.create_server(("", int(options["--listen"]))) as server:
        print("listening", flush=True)
        conn, _ = server.accept()
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with conn, conn.makefile("rw") as stream:
            serve(device, stream, stream)


if __name__ == "__main__":
    main(sys.argv[1:])
