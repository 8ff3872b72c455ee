#!/usr/bin/env python3
"""A target in the guest that whoever asks by CM is connected to: rdma_cm as any server uses it, by pyverbs.

Usage: cm_target.py ADDRESS PORT. It prints the numbers of the memory that its peers may write and read, and accepts for ever.
"""
import random
import sys

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo, ConnParam
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPCap, QPInitAttr

SIZE = 65536


def main(address, port):
    def init():
        return QPInitAttr(qp_type=e.IBV_QPT_RC, cap=QPCap(max_send_wr=16, max_recv_wr=16), sq_sig_all=1)

    # Queue pairs of a device share rdma_cm's protection domain: one that is never connected gives it before anybody asks.
    first = CMID(creator=AddrInfo(dst=address, dst_service=str(port), port_space=ce.RDMA_PS_TCP, flags=0), qp_init_attr=init())
    memory = MR(PD(first), SIZE, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC)
    memory.write(random.randbytes(SIZE), SIZE)
    listener = CMID(creator=AddrInfo(src=address, src_service=str(port), port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE), qp_init_attr=init())
    listener.listen()
    print(f"rkey={memory.rkey:#x},va={memory.buf:#x},length={SIZE}", flush=True)
    connections = []
    while True:
        asked = listener.get_request()
        asked.accept(ConnParam(resources=8, depth=8))
        connections.append(asked)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
