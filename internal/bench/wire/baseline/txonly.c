// txonly sends one constant frame again and again through an AF_XDP socket, and does nothing else: what a sender in C costs at
// least. It reads the frame from standard input, and prints how many descriptors were completed, how many kicks the interface
// refused frames in, and the processor time of the loop in nanoseconds.
//
//   txonly INTERFACE COUNT BATCH BUDGET < FRAME
//
// Built and run by internal/bench/wire; it needs no header that is younger than AF_XDP itself.
#include <errno.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

// Few of the chunks are used, so that they stay in the cache. That a chunk is sent again before it came back does not matter
// here: its frame never changes.
enum { CHUNK = 4096, CHUNKS = 2048, USED = 512, RING = 2048 };

struct ring {
	uint32_t *producer, *consumer;
	void *slots;
};

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static struct ring map(int fd, struct xdp_ring_offset *at, size_t slot, uint64_t page) {
	char *p = mmap(NULL, at->desc + RING * slot, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
	if (p == MAP_FAILED)
		fail("map a ring");
	struct ring r = {(uint32_t *)(p + at->producer), (uint32_t *)(p + at->consumer), p + at->desc};
	return r;
}

static int64_t spent(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000LL + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000LL;
}

int main(int argc, char **argv) {
	if (argc != 5)
		return 2;
	uint64_t count = strtoull(argv[2], NULL, 10);
	uint32_t batch = atoi(argv[3]);
	int budget = atoi(argv[4]), size = RING;

	char *umem = mmap(NULL, (size_t)CHUNK * CHUNKS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (umem == MAP_FAILED)
		fail("map memory");
	size_t length = fread(umem, 1, CHUNK, stdin);
	for (int i = 1; i < CHUNKS; i++)
		memcpy(umem + (size_t)i * CHUNK, umem, length);

	int fd = socket(AF_XDP, SOCK_RAW, 0);
	if (fd < 0)
		fail("open a socket");
	struct xdp_umem_reg reg = {.addr = (uint64_t)(uintptr_t)umem, .len = (uint64_t)CHUNK * CHUNKS, .chunk_size = CHUNK};
	if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof reg) ||
	    setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &size, sizeof size) ||
	    setsockopt(fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &size, sizeof size) ||
	    setsockopt(fd, SOL_XDP, XDP_TX_RING, &size, sizeof size))
		fail("set the socket up");
	if (setsockopt(fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof budget) && errno != ENOPROTOOPT)
		fail("set the budget");
	struct xdp_mmap_offsets off;
	socklen_t n = sizeof off;
	if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &off, &n))
		fail("ask for offsets");
	struct ring tx = map(fd, &off.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
	struct ring cq = map(fd, &off.cr, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
	struct sockaddr_xdp addr = {.sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex(argv[1]), .sxdp_flags = XDP_COPY};
	// A queue is free again a moment after whoever had it went away.
	for (int tries = 0; bind(fd, (struct sockaddr *)&addr, sizeof addr); tries++) {
		if (errno != EBUSY || tries == 1000)
			fail("bind");
		usleep(1000);
	}

	struct xdp_desc *descs = tx.slots;
	uint64_t queued = 0, done = 0, refused = 0;
	uint32_t producer = *tx.producer, taken = *cq.consumer;
	int64_t began = spent();
	while (done < count) {
		uint32_t space = RING - (producer - __atomic_load_n(tx.consumer, __ATOMIC_ACQUIRE));
		uint32_t todo = count - queued < batch ? count - queued : batch;
		if (todo && space >= todo) {
			for (uint32_t i = 0; i < todo; i++, producer++) {
				struct xdp_desc *d = &descs[producer % RING];
				d->addr = (uint64_t)(producer % USED) * CHUNK;
				d->len = length;
				d->options = 0;
			}
			__atomic_store_n(tx.producer, producer, __ATOMIC_RELEASE);
			queued += todo;
		}
		if (sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0) {
			if (errno == EBUSY)
				refused++;
			else if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
				fail("send");
		}
		uint32_t have = __atomic_load_n(cq.producer, __ATOMIC_ACQUIRE);
		done += have - taken;
		taken = have;
		__atomic_store_n(cq.consumer, taken, __ATOMIC_RELEASE);
	}
	printf("%llu %llu %lld\n", (unsigned long long)done, (unsigned long long)refused, (long long)(spent() - began));
	return 0;
}
