/* Where a forward pass begins: torch numbers the nodes of its graphs, and every library of
 * its own asks for the next number through a slot. */
#ifndef PROBE_TORCH_GRAPH_H
#define PROBE_TORCH_GRAPH_H

/* Stands in these slots from now on. A nanosecond or two a node, in every step. */
void torch_graph_attach(void);

#endif
