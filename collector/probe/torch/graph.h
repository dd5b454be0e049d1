/* Where a forward pass begins: torch numbers the nodes of its graphs, and every library of
 * its own asks for the next number through a slot. */
#ifndef PROBE_TORCH_GRAPH_H
#define PROBE_TORCH_GRAPH_H

#include <stdint.h>

/* Takes the slots. Once per process, at attach; takes the loader's lock. */
void torch_graph_attach(void);

/* Nodes are counted, or the slots are torch's own: at a step boundary. */
void torch_graph_record(uint32_t recording);

#endif
