"""One side of rocescope's exchange (docs/connect.md) on Linux's verbs, by pyverbs: messages of the pattern of package inject/load, checked.

client SERVER GID TRANSPORT OPERATION COUNT SIZE TIMEOUT: posts messages to "rocescope serve", which checks them.
server GID TRANSPORT OPERATION COUNT SIZE: takes them from "rocescope bench --verify", and checks them: data, and immediates in order.
"""
import json
import random
import socket
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT, DEVICE, MTU, DEPTH, PATIENCE, QUIET = 18515, "rxe0", 1024, 500, 60, 0.5
TYPES = {"RC": e.IBV_QPT_RC, "UC": e.IBV_QPT_UC}
OPERATIONS = {"write": e.IBV_WR_RDMA_WRITE, "write-imm": e.IBV_WR_RDMA_WRITE_WITH_IMM, "send": e.IBV_WR_SEND, "send-imm": e.IBV_WR_SEND_WITH_IMM}
MASK, GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def message(seed, number, size):
    """The pattern of queue pair 0; inject/load/pattern.go."""
    x = mix(seed ^ mix(1) ^ mix((number if size >= 8 else 0) * GOLDEN + 2 & MASK))
    words = [number.to_bytes(8, "little")] if size >= 8 else []
    while 8 * len(words) < size:
        x = x + GOLDEN & MASK
        words.append(mix(x).to_bytes(8, "little"))
    return b"".join(words)[:size]


def stride(size):
    return max(size, 8) + 63 & ~63


class Side:
    def __init__(self, gid, transport, size, slots):
        self.size, self.slots, self.kind = size, slots, TYPES[transport]
        self.context, self.gid = Context(name=DEVICE), int(gid)
        self.pd = PD(self.context)
        self.send, self.recv = CQ(self.context, DEPTH), CQ(self.context, DEPTH)
        rights = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        room = stride(size) * slots
        self.mr = MR(self.pd, room, rights)
        self.mr.write(bytes(room), room)
        self.sink = MR(self.pd, stride(size) * DEPTH, rights)
        self.qp = QP(self.pd, QPInitAttr(qp_type=self.kind, scq=self.send, rcq=self.recv, cap=QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH), sq_sig_all=1))
        a = QPAttr(qp_state=e.IBV_QPS_INIT)
        a.pkey_index, a.port_num, a.qp_access_flags = 0, 1, e.IBV_ACCESS_REMOTE_WRITE
        self.qp.modify(a, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS)
        self.psn = random.getrandbits(24)
        self.address = self.found()

    def found(self):
        with open(f"/sys/class/infiniband/{DEVICE}/ports/1/gids/{self.gid}") as f:
            packed = bytes.fromhex(f.read().strip().replace(":", ""))
        if packed[:12] == bytes(10) + b"\xff\xff":
            return socket.inet_ntop(socket.AF_INET, packed[12:])
        return socket.inet_ntop(socket.AF_INET6, packed)

    def numbers(self):
        memory = {"rkey": hex(self.mr.rkey), "va": hex(self.mr.buf), "length": stride(self.size) * self.slots}
        return {"address": self.address, "qpn": hex(self.qp.qp_num), "psn": hex(self.psn), "ack_timeout": 20, "retry_count": 7, "rnr_retry_count": 7,
                "memory": memory}

    def receive(self):
        for k in range(DEPTH):
            at = self.sink.buf + k * stride(self.size)
            self.qp.post_recv(RecvWR(wr_id=k, num_sge=1, sg=[SGE(at, stride(self.size), self.sink.lkey)]))

    def connect(self, far, mtu, timeout=20):
        packed = socket.inet_pton(socket.AF_INET6, far["address"] if ":" in far["address"] else "::ffff:" + far["address"])
        dgid = GID(":".join(packed[i:i + 2].hex() for i in range(0, 16, 2)))
        a = QPAttr(qp_state=e.IBV_QPS_RTR)
        a.ah_attr = AHAttr(gr=GlobalRoute(dgid=dgid, sgid_index=self.gid, hop_limit=64), is_global=1, port_num=1)
        a.path_mtu, a.dest_qp_num, a.rq_psn = {1024: e.IBV_MTU_1024, 4096: e.IBV_MTU_4096}[mtu], int(far["qpn"], 16), int(far["psn"], 16)
        a.max_dest_rd_atomic, a.min_rnr_timer = 1, 12
        rc = self.kind == e.IBV_QPT_RC
        mask = e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
        self.qp.modify(a, mask | (e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER if rc else 0))
        a = QPAttr(qp_state=e.IBV_QPS_RTS)
        a.sq_psn, a.timeout, a.retry_cnt, a.rnr_retry, a.max_rd_atomic = self.psn, timeout, 7, 7, 1
        reliable = e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
        self.qp.modify(a, e.IBV_QP_STATE | e.IBV_QP_SQ_PSN | (reliable if rc else 0))

    def post(self, op, far, seed):
        data = b"".join(message(seed, k, self.size).ljust(stride(self.size), b"\0") for k in range(self.slots))
        self.mr.write(data, len(data))
        for k in range(self.slots):
            at = k * stride(self.size)
            wr = SendWR(wr_id=k, opcode=OPERATIONS[op], num_sge=1, sg=[SGE(self.mr.buf + at, self.size, self.mr.lkey)], imm_data=socket.htonl(k))
            if "write" in op:
                wr.set_wr_rdma(int(far["memory"]["rkey"], 16), int(far["memory"]["va"], 16) + at)
            self.qp.post_send(wr)

    def sent(self):
        late, done = time.time() + PATIENCE, 0
        while done < self.slots and time.time() < late:
            n, completions = self.send.poll(64)
            done += n
            for w in completions or []:
                if w.status != e.IBV_WC_SUCCESS:
                    raise SystemExit(f"message {w.wr_id} failed: status {w.status}")
        if done < self.slots:
            raise SystemExit(f"{done} of {self.slots} messages completed in {PATIENCE} s")

    def check(self, traffic, first, end, enough):
        """Looks at the messages of these numbers. Returns how many there are, how many of them are wrong, and what is wrong first."""
        op, size, got, wrong, what, last = traffic["operation"], self.size, 0, 0, "", first - 1
        quiet = time.time() + PATIENCE
        while op != "write" and got < end - first and time.time() < quiet:
            n, completions = self.recv.poll(64)
            if n and not enough:
                quiet = time.time() + QUIET
            for w in completions or []:
                data = self.sink.read(size, w.wr_id * stride(size))
                number = socket.ntohl(w.imm_data & 0xFFFFFFFF) if "imm" in op else int.from_bytes(data[:8], "little")
                if "write" in op:
                    data = self.mr.read(size, number % self.slots * stride(size))
                if not first <= number < end or number <= last or w.status != e.IBV_WC_SUCCESS or w.byte_len != size or data != message(traffic["seed"], number, size):
                    wrong, what = wrong + 1, what or f"completion {got}: number {number} behind {last}, {w.byte_len} bytes, status {w.status}"
                got, last = got + 1, number
        if op == "write":
            got, wrong, what = self.written(traffic, first, end)
        return got, wrong, what

    def written(self, traffic, first, end):
        """Without completions there is the memory alone: a message is whole, or each of its packets has come or has not."""
        got, wrong, what = 0, 0, ""
        time.sleep(QUIET)
        for k in range(first, end):
            want, data = message(traffic["seed"], k, self.size), self.mr.read(self.size, k % self.slots * stride(self.size))
            if data == want:
                got += 1
                continue
            for at in range(0, self.size, MTU):
                if data[at:at + MTU] not in (want[at:at + MTU], bytes(len(want[at:at + MTU]))):
                    wrong, what = wrong + 1, what or f"message {k}, from byte {at} on"
        return got, wrong, what


class Lines:
    def __init__(self, conn):
        self.file = conn.makefile("rw")

    def say(self, **line):
        self.file.write(json.dumps({"rocescope": 1} | line) + "\n")
        self.file.flush()

    def hear(self):
        line = json.loads(self.file.readline())
        if "error" in line:
            raise SystemExit("refused: " + line["error"])
        return line


def client(server, gid, transport, op, count, size, timeout):
    side, seed = Side(gid, transport, int(size), int(count)), random.getrandbits(32)
    with socket.create_connection((server, PORT)) as conn:
        lines = Lines(conn)
        traffic = {"operation": op, "size": side.size, "slots": side.slots, "verify": True, "seed": seed}
        lines.say(transport=transport, mtu=MTU, qps=[side.numbers()], traffic=traffic)
        answer = lines.hear()
        far = answer["qps"][0]
        side.connect(far, answer["mtu"], int(timeout))
        lines.say(ready=True)
        lines.hear()
        side.post(op, far, seed)
        side.sent()
        lines.say(ready=True, report={"messages": side.slots})
        report = lines.hear().get("report", {})
        lines.say(done=True)
    tell(report.get("messages", 0), report.get("wrong", 0), report.get("lost", 0), report.get("first", ""))


def tell(messages, wrong, lost, first):
    print(f"{messages} messages, {wrong} wrong, {lost} lost {first}", flush=True)
    if wrong:
        raise SystemExit(1)


def server(gid, transport, op, count, size):
    with socket.create_server(("", PORT)) as listener:
        print("listening", flush=True)
        conn, _ = listener.accept()
        lines = Lines(conn)
        offer = lines.hear()
        far, traffic = offer["qps"][0], offer["traffic"]
        if (offer["transport"], traffic["operation"], traffic["size"]) != (transport, op, int(size)):
            raise SystemExit(f"the offer is another one: {offer}")
        side = Side(gid, offer["transport"], traffic["size"], traffic["slots"])
        side.receive()
        side.connect(far, offer["mtu"])
        lines.say(transport=offer["transport"], mtu=offer["mtu"], qps=[side.numbers()])
        looked = got = wrong = 0
        first = ""
        while True:
            line = lines.hear()
            if not line.get("ready"):
                break
            end = line.get("report", {}).get("messages", 0)
            if end == looked:
                lines.say(ready=True)
                continue
            n, bad, what = side.check(traffic, looked, end, offer["transport"] == "RC")
            got, wrong, first, looked = got + n, wrong + bad, first or what, end
            lines.say(ready=True, report={"messages": got, "wrong": wrong, "lost": looked - got})
        if looked != int(count):
            raise SystemExit(f"{looked} messages were sent, not {count}")
    tell(got, wrong, looked - got, first)


{"client": client, "server": server}[sys.argv[1]](*sys.argv[2:])
