#!/bin/sh
# Runs axi_stream_bench.py with a core that Icarus Verilog has compiled: axi_stream_bench.sh CORE.vvp TOPLEVEL
# The pipe is standard input and output; what cocotb and the simulator say goes to standard error.
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" TOPLEVEL="$2" TOPLEVEL_LANG=verilog
export MODULE=axi_stream_bench COCOTB_TEST_MODULES=axi_stream_bench COCOTB_TOPLEVEL="$2" # of cocotb 1 and 2
exec vvp -M "$(cocotb-config --lib-dir)" -m "$(cocotb-config --lib-name vpi icarus)" "$1" 3>&1 1>&2
