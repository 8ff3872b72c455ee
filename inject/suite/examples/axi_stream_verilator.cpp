// A Verilator bench that puts a core with AXI-Stream ports behind rocescope's pipe.
//
// The core has s_axis_* (frames in) and m_axis_* (frames out), each with tdata, tkeep, tlast, tvalid and tready, of any width, and
// a clock clk. With the core beside this file:
//
//     verilator --cc --exe --build -O3 --prefix Vcore --top-module axi_stream_echo axi_stream_echo.v axi_stream_verilator.cpp
//     rocescope test --pipe obj_dir/Vcore --hook ./register_core_hook.py
//
// READY says how often the bench takes a beat of the core's: 1.0 always, less to press back; SEED makes it another series. What the
// core prints ($display) has to go to standard error, for standard output is the pipe.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "Vcore.h"
#include "verilated.h"

using Frame = std::vector<uint8_t>;
using Timed = std::pair<uint64_t, Frame>;

enum Kind : uint8_t { HELLO = 1, FRAME = 2, ADVANCE = 3, REACHED = 4, END = 5 };

static const uint64_t PERIOD = 4;  // nanoseconds
static const uint32_t LONGEST = 9022;
static const size_t WIDTH = sizeof(Vcore::s_axis_tdata);  // bytes of a beat

static void put(Kind kind, uint64_t time, const void *body = nullptr, uint32_t length = 0) {
  uint8_t header[16] = {};
  memcpy(header, &length, 4);
  header[4] = kind;
  memcpy(header + 8, &time, 8);
  fwrite(header, 1, sizeof header, stdout);
  if (length > 0) fwrite(body, 1, length, stdout);
}

static Kind get(uint64_t &time, Frame &body) {
  uint8_t header[16];
  if (fread(header, 1, sizeof header, stdin) != sizeof header) return END;
  uint32_t length;
  memcpy(&length, header, 4);
  memcpy(&time, header + 8, 8);
  body.resize(length);
  if (length > 0 && fread(body.data(), 1, length, stdin) != length) return END;
  return Kind(header[4]);
}

struct Bench {
  Vcore core;
  uint64_t now = 0;
  double ready = 1;
  std::mt19937 random;
  std::deque<Timed> waiting;  // for the core
  size_t at = 0;              // how much of the first of them it has
  std::deque<Timed> left;     // it
  Frame arriving;

  // One clock: both sides see what the other offers before the edge, and move at it.
  void cycle() {
    bool offers = !waiting.empty() && waiting.front().first <= now;
    core.s_axis_tvalid = offers;
    if (offers) {
      const Frame &f = waiting.front().second;
      size_t n = f.size() - at < WIDTH ? f.size() - at : WIDTH;
      memset(&core.s_axis_tdata, 0, WIDTH);
      memcpy(&core.s_axis_tdata, f.data() + at, n);
      uint64_t keep = n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1;  // beats of up to 64 bytes
      memcpy(&core.s_axis_tkeep, &keep, sizeof core.s_axis_tkeep);
      core.s_axis_tlast = at + n == f.size();
    }
    core.m_axis_tready = std::generate_canonical<double, 32>(random) < ready;
    core.clk = 0;
    core.eval();
    bool taken = offers && core.s_axis_tready;
    bool given = core.m_axis_tvalid && core.m_axis_tready;
    bool last = given && core.m_axis_tlast;
    if (given) {
      uint64_t keep = 0;
      memcpy(&keep, &core.m_axis_tkeep, sizeof core.m_axis_tkeep);
      size_t n = size_t(__builtin_popcountll(keep));
      const uint8_t *data = reinterpret_cast<const uint8_t *>(&core.m_axis_tdata);
      arriving.insert(arriving.end(), data, data + n);
    }
    core.clk = 1;
    core.eval();
    now += PERIOD;
    if (taken && (at += WIDTH) >= waiting.front().second.size()) {
      waiting.pop_front();
      at = 0;
    }
    if (last) {
      left.emplace_back(now, std::move(arriving));
      arriving.clear();
    }
  }
};

int main(int argc, char **argv) {
  Verilated::commandArgs(argc, argv);
  Bench bench;
  if (const char *text = getenv("READY")) bench.ready = atof(text);
  if (const char *text = getenv("SEED")) bench.random.seed(uint32_t(atol(text)));
  const uint32_t hello[2] = {1, LONGEST};
  put(HELLO, 0, hello, sizeof hello);
  fflush(stdout);
  for (;;) {
    uint64_t time;
    Frame body;
    switch (get(time, body)) {
      case FRAME:
        bench.waiting.emplace_back(time, std::move(body));
        break;
      case ADVANCE:
        while (bench.now < time && bench.left.empty()) bench.cycle();
        for (const Timed &f : bench.left) put(FRAME, f.first, f.second.data(), uint32_t(f.second.size()));
        bench.left.clear();
        put(REACHED, bench.now);
        fflush(stdout);
        break;
      case END:
        return 0;
      default:
        break;
    }
  }
}
