/* Log-linear cells for durations: 64 per octave, so that the middle of a cell is never
 * more than 0.79 % away from a value in it. Values below 128 have a cell each. */
#ifndef AGGREGATE_HISTOGRAM_H
#define AGGREGATE_HISTOGRAM_H

#include <stdint.h>

#include "wire/attributes.h"

#define HISTOGRAM_OCTAVE_BITS  6u
#define HISTOGRAM_BITS_MAX     47u /* 2^47 ns are 39 h; longer ones count as that */
#define HISTOGRAM_OCTAVE_CELLS (1u << HISTOGRAM_OCTAVE_BITS)
/* Two of them for the values with a cell each. */
#define HISTOGRAM_OCTAVES (HISTOGRAM_BITS_MAX - HISTOGRAM_OCTAVE_BITS + 1)
#define HISTOGRAM_CELLS   (HISTOGRAM_OCTAVES * HISTOGRAM_OCTAVE_CELLS)

/* Cell of `ns`; negative durations count as 0. */
ALWAYS_INLINE uint32_t histogram_cell(int64_t ns)
{
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;

    if (UNLIKELY(value >= (uint64_t)1 << HISTOGRAM_BITS_MAX))
        value = ((uint64_t)1 << HISTOGRAM_BITS_MAX) - 1;
    uint32_t top = 63u - (uint32_t)__builtin_clzll(value | 64u);
    uint32_t shift = top - HISTOGRAM_OCTAVE_BITS;

    return shift * 64u + (uint32_t)(value >> shift);
}

/* Middle of a cell, ns. */
ALWAYS_INLINE double histogram_value(uint32_t cell)
{
    if (cell < 128u)
        return (double)cell;
    uint32_t shift = cell / 64u - 1u;
    uint64_t low = (uint64_t)(cell - shift * 64u) << shift;

    return (double)low + 0.5 * (double)(((uint64_t)1 << shift) - 1);
}

/* The smallest value that at least `share` of `total` counts do not exceed; NaN when
 * total is 0. `counts` has HISTOGRAM_CELLS entries. */
ALWAYS_INLINE double histogram_quantile(const uint64_t *counts, uint64_t total,
                                        double share)
{
    double rank = share * (double)total;
    uint64_t seen = 0;

    for (uint32_t cell = 0; total > 0 && cell < HISTOGRAM_CELLS; cell++) {
        seen += counts[cell];
        if (counts[cell] > 0 && (double)seen >= rank)
            return histogram_value(cell);
    }
    return __builtin_nan("");
}

#endif
