// A core with AXI-Stream ports that stands for yours: each frame goes back to where it came from, with its two MAC addresses
// exchanged and nothing else changed. It shows which ports the two benches beside it want, and lets them be tried.
module axi_stream_echo #(
    parameter WIDTH = 512,
    parameter DEPTH = 256 // beats that wait for the way out
) (
    input wire clk,

    input wire [WIDTH-1:0] s_axis_tdata,
    input wire [WIDTH/8-1:0] s_axis_tkeep,
    input wire s_axis_tlast,
    input wire s_axis_tvalid,
    output wire s_axis_tready,

    output wire [WIDTH-1:0] m_axis_tdata,
    output wire [WIDTH/8-1:0] m_axis_tkeep,
    output wire m_axis_tlast,
    output wire m_axis_tvalid,
    input wire m_axis_tready
);
  localparam BITS = $clog2(DEPTH);

  reg [WIDTH-1:0] data[0:DEPTH-1];
  reg [WIDTH/8-1:0] keep[0:DEPTH-1];
  reg last[0:DEPTH-1];
  reg [BITS:0] head = 0; // where the next beat goes in
  reg [BITS:0] tail = 0; // where the next one goes out
  reg first = 1;

  assign s_axis_tready = head - tail != DEPTH[BITS:0];
  assign m_axis_tvalid = head != tail;
  assign m_axis_tdata = data[tail[BITS-1:0]];
  assign m_axis_tkeep = keep[tail[BITS-1:0]];
  assign m_axis_tlast = last[tail[BITS-1:0]];

  always @(posedge clk) begin
    if (s_axis_tvalid && s_axis_tready) begin
      // Byte 0 of the frame is in the lowest bits: the destination in 47:0, the source in 95:48.
      data[head[BITS-1:0]] <= first ? {s_axis_tdata[WIDTH-1:96], s_axis_tdata[47:0], s_axis_tdata[95:48]} : s_axis_tdata;
      keep[head[BITS-1:0]] <= s_axis_tkeep;
      last[head[BITS-1:0]] <= s_axis_tlast;
      first <= s_axis_tlast;
      head <= head + 1;
    end
    if (m_axis_tvalid && m_axis_tready) tail <= tail + 1;
  end
endmodule
