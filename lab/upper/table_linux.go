// Package upper makes captures of what is carried over RDMA (storage, files, sockets) by Linux's own implementations: two guests of
// the laboratory, one of which serves and one of which uses, and each packet between them.
//
// It owns the table of what is run (Row), and running it. What the packets mean is dissect's and flows' affair.
package upper

// Row is one protocol between two guests. Scripts are for busybox's shell, and stop at the first command that fails; {target} and
// {host} are the guests' addresses.
type Row struct {
	Name   string // of the capture
	What   string
	Filter string // of the capture
	Target string // makes the serving guest ready
	Host   string // connects, writes, reads, and disconnects, in the other guest
	Undo   string // frees what the target holds
	Says   string // what the host must have printed, among other things
}

// Table is all that is run.
var Table = []Row{
	{
		Name: "nvme", What: "NVMe over Fabrics: nvmet-rdma and nvme-rdma", Filter: "roce",
		Target: `
	grep -q configfs /proc/mounts || mount -t configfs none /sys/kernel/config
	cd /sys/kernel/config/nvmet
	mkdir -p subsystems/nqn.2024-01.test:disk/namespaces/1 ports/1
	echo 1 > subsystems/nqn.2024-01.test:disk/attr_allow_any_host
	printf /dev/ram0 > subsystems/nqn.2024-01.test:disk/namespaces/1/device_path
	echo 1 > subsystems/nqn.2024-01.test:disk/namespaces/1/enable
	cd ports/1
	printf ipv4 > addr_adrfam
	printf rdma > addr_trtype
	printf {target} > addr_traddr
	printf 4420 > addr_trsvcid
	ln -s ../../subsystems/nqn.2024-01.test:disk subsystems/disk`,
		Host: `
	printf transport=rdma,traddr={target},trsvcid=4420,nqn=nqn.2024-01.test:disk,hostnqn=nqn.2024-01.test:host,hostid=11111111-2222-3333-4444-555555555555,nr_io_queues=1,queue_size=16 > /dev/nvme-fabrics
	until [ -b /dev/nvme0n1 ]; do sleep 0.1; done` + used("/dev/nvme0n1") + `
	grep . /sys/class/nvme/nvme0/cntlid /sys/class/nvme/nvme0/model /sys/class/nvme/nvme0/address
	echo 1 > /sys/class/nvme/nvme0/delete_controller`,
		Undo: `
	rm /sys/kernel/config/nvmet/ports/1/subsystems/disk`,
		Says: "read what was written",
	},
	{
		Name: "nfs4", What: "NFS 4.2 over RPC-over-RDMA: nfsd and the kernel's client", Filter: "roce",
		Target: nfsd,
		Host:   nfs("vers=4.2", "/"),
		Says:   "read what was written",
	},
	{
		Name: "nfs3", What: "NFS 3 over RPC-over-RDMA: nfsd and the kernel's client", Filter: "roce",
		Target: nfsd,
		Host:   nfs("vers=3,nolock,mountproto=tcp", "/export"),
		Says:   "read what was written",
	},
	{
		Name: "iser", What: "iSCSI over iSER: LIO (ib_isert) and open-iscsi (ib_iser)", Filter: "roce",
		Target: `
	grep -q configfs /proc/mounts || mount -t configfs none /sys/kernel/config
	cd /sys/kernel/config/target
	mkdir -p core/rd_mcp_0/disk
	echo rd_pages=512 > core/rd_mcp_0/disk/control
	echo 1 > core/rd_mcp_0/disk/enable
	mkdir -p iscsi/iqn.2024-01.test:disk/tpgt_1/np/{target}:3260 iscsi/iqn.2024-01.test:disk/tpgt_1/lun/lun_0
	cd iscsi/iqn.2024-01.test:disk/tpgt_1
	echo 1 > np/{target}:3260/iser
	ln -s /sys/kernel/config/target/core/rd_mcp_0/disk lun/lun_0/disk
	echo 0 > attrib/authentication
	echo 0 > attrib/demo_mode_write_protect
	echo 1 > attrib/generate_node_acls
	echo 1 > attrib/cache_dynamic_acls
	echo 1 > enable`,
		Host: `
	mkdir -p /run/lock/iscsi /etc/iscsi /var/lib/iscsi
	echo InitiatorName=iqn.2024-01.test:host > /etc/iscsi/initiatorname.iscsi
	echo root:x:0:0:root:/:/bin/sh > /etc/passwd # iscsid asks who speaks to it
	iscsid
	iscsiadm -m node -o new -T iqn.2024-01.test:disk -p {target}:3260 -I iser
	iscsiadm -m node -T iqn.2024-01.test:disk -p {target}:3260 --login
	until [ -b /dev/sda ]; do sleep 0.1; done` + used("/dev/sda") + `
	iscsiadm -m session -P 1
	iscsiadm -m node -T iqn.2024-01.test:disk -p {target}:3260 --logout`,
		Undo: `
	cd /sys/kernel/config/target/iscsi/iqn.2024-01.test:disk/tpgt_1
	echo 0 > enable`,
		Says: "read what was written",
	},
	{
		Name: "smcr", What: "SMC-R version 2: the CLC exchange of the kernel's sockets on TCP", Filter: "roce or tcp",
		Target: smc + `
cat > /tmp/serve.py <<'end'
s = smc()
s.bind(("{target}", 7777))
s.listen(1)
c, _ = s.accept()
while data := c.recv(65536):
    c.sendall(data)
end
	cat /tmp/smc.py /tmp/serve.py > /tmp/server.py
	python3 /tmp/server.py > /tmp/served 2>&1 &
	sleep 3`,
		Host: smc + `
cat > /tmp/use.py <<'end'
s = smc()
s.connect(("{target}", 7777))
data = b"0123456789abcdef" * 1024
s.sendall(data)
back = b""
while len(back) < len(data):
    back += s.recv(65536)
print("read what was written" if back == data else "read something else")
s.close()
end
	cat /tmp/smc.py /tmp/use.py > /tmp/client.py
	python3 /tmp/client.py > /tmp/used 2>&1 &
	until rdma resource show qp | grep 'type RC'; do sleep 0.2; done # after the server's Accept
	sleep 3`,
		Says: "type RC",
	},
}

// smc writes what both ends need: a socket that is SMC's, the name of the network that the device is in (without one, SMC looks for
// RoCE v1), and the name by which version 2 finds its like (a user-defined EID).
const smc = `
cat > /tmp/smc.py <<'end'
import socket, struct

def attr(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)

def ask(kind, cmd, *attrs):
    n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
    body = struct.pack("=BBH", cmd, 1, 0) + b"".join(attrs)
    n.send(struct.pack("=IHHII", 16 + len(body), kind, 5, 1, 0) + body)
    return n.recv(65536)

def family(name):
    answer = ask(16, 3, attr(2, name + bytes(1)))
    at = 20
    while at < len(answer):
        size, kind = struct.unpack_from("=HH", answer, at)
        if kind == 1:
            return struct.unpack_from("=H", answer, at + 4)[0]
        at += (size + 3) & ~3

def tell(name, cmd, *attrs):
    error = struct.unpack_from("=i", ask(family(name), cmd, *attrs), 16)[0]
    if error not in (0, -17): # it is there already
        raise OSError(-error, "the kernel did not take a name")

tell(b"SMC_PNETID", 2, attr(1, b"LAB" + bytes(1)), attr(2, b"eth0" + bytes(1)), attr(3, b"rxe0" + bytes(1)), attr(4, bytes([1])))
tell(b"SMC_GEN_NETLINK", 10, attr(1, b"LAB".ljust(32) + bytes(1)))

def smc():
    s = socket.socket(43, socket.SOCK_STREAM) # AF_SMC, which has IPv4's addresses
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=s.detach())
end`

// nfsd serves a folder in memory, by both versions.
const nfsd = `
	[ -e /proc/fs/nfsd/threads ] && grep -q '[1-9]' /proc/fs/nfsd/threads && exit 0
	mkdir -p /export /var/lib/nfs/v4recovery /run/rpcbind /etc
	printf 'tcp 6 TCP\nudp 17 UDP\n' > /etc/protocols
	echo root:x:0:0:root:/:/bin/sh > /etc/passwd
	echo _rpc:x:101:65534::/run/rpcbind:/bin/sh >> /etc/passwd
	echo root:x:0: > /etc/group
	printf 'rpcbind 111/tcp sunrpc\nrpcbind 111/udp sunrpc\n' > /etc/services
	mount -t tmpfs none /export
	mount -t nfsd nfsd /proc/fs/nfsd
	rpcbind
	echo '/export *(rw,no_root_squash,insecure,no_subtree_check,fsid=0)' > /etc/exports
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	exportfs -a
	rpc.mountd -p 20048
	echo 'rdma 20049' > /proc/fs/nfsd/portlist
	echo 2 > /proc/fs/nfsd/threads
	echo Y > /proc/fs/nfsd/v4_end_grace
	cat /proc/fs/nfsd/portlist`

// nfs mounts what nfsd serves, and uses it.
func nfs(options, folder string) string {
	return `
	mkdir -p /mnt
	printf 'tcp 6 TCP\nudp 17 UDP\n' > /etc/protocols
	mount.nfs {target}:` + folder + ` /mnt -o proto=rdma,port=20049,` + options + `
	grep nfs /proc/mounts` + used("/mnt/file") + `
	ls -l /mnt
	rm /mnt/file
	umount /mnt`
}

// used writes a file or a disk and reads it again, from where it really is.
func used(file string) string {
	return `
	yes 0123456789abcde | head -c 16384 > /tmp/written
	dd if=/tmp/written of=` + file + ` bs=16384 count=1 conv=notrunc,fsync
	echo 3 > /proc/sys/vm/drop_caches
	dd if=` + file + ` of=/tmp/read bs=16384 count=1
	cmp /tmp/written /tmp/read
	echo read what was written`
}

// absent is what Debian's kernel cannot run.
const absent = `
SMB Direct is not among them: Debian builds ksmbd and the CIFS client without it (CONFIG_SMB_SERVER_SMBDIRECT and
CONFIG_CIFS_SMB_DIRECT are not set). Of SMC-R there is the exchange on TCP only: over soft-RoCE the kernels do not bring the link up behind
it (why is not known), and the client does not come back from connect: its kernel waits in smc_wr_drain_cq. It comes last for that reason.
`
