// Package html writes reports for people to hand on: one file with everything in it, that opens in a browser without a
// network. Analysis is the page of a capture, Suite that of a conformance run.
//
// The analysis document and the tracker's last snapshot say most of a page. What plots and ladder diagrams need beyond them is
// taken from a second look at the packets, by a Collector; the first look has told it which connections matter, how long they
// last and which frames prove a finding. So it keeps a bounded amount, and nothing that it drops is an extreme: where packets
// are too many to be drawn one by one, a column of the plot has the lowest and the highest value of its time.
//
// No page holds payload. The charts are SVG, drawn here: they are all there before a script runs, and the script only moves
// them. What the numbers mean is flows' affair, what the packets say dissect's.
package html
