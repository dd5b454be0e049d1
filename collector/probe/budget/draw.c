#include "probe/budget/draw.h"

#define CONTROL_SHARE_FIRST (1.0 / 3)
#define CONTROL_SHARE_LAST  (1.0 / 50)
#define HASH_RANGE          18446744073709551616.0 /* 2^64 */

/* The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the input
 * changes every bit of the output with probability 1/2. */
static uint64_t hash_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t draw_seed(const char *const *texts, size_t count)
{
    uint64_t seed = UINT64_C(0xcbf29ce484222325); /* FNV-1a, a byte at a time */

    for (size_t i = 0; i < count; i++) {
        for (const char *byte = texts[i]; byte != NULL && *byte != '\0'; byte++)
            seed = (seed ^ (unsigned char)*byte) * UINT64_C(0x100000001b3);
        /* A separator that no text contains: {"ab", "c"} is not {"a", "bc"}. */
        seed = (seed ^ (texts[i] == NULL ? 256u : 257u)) * UINT64_C(0x100000001b3);
    }
    return hash_mix(seed);
}

double draw_control_share(uint64_t block)
{
    if (block < DRAW_FIRST_BLOCKS)
        return 0;
    if (block < DRAW_EARLY_BLOCKS)
        return CONTROL_SHARE_FIRST;

    double share = CONTROL_SHARE_FIRST * DRAW_EARLY_BLOCKS / (double)block;

    return share > CONTROL_SHARE_LAST ? share : CONTROL_SHARE_LAST;
}

enum draw_arm draw_arm(uint64_t seed, uint64_t block, unsigned rate)
{
    /* The increment of SplitMix64 keeps neighbouring blocks apart. */
    uint64_t hash = hash_mix(seed + (block + 1) * UINT64_C(0x9e3779b97f4a7c15));
    double share = draw_control_share(block);

    if (share > 0 && hash >= (uint64_t)((1 - share) * HASH_RANGE))
        return DRAW_CONTROL;
    if (rate > DRAW_RATE_LAST)
        return DRAW_IDLE;
    return hash <= UINT64_MAX >> rate ? DRAW_RECORDED : DRAW_IDLE;
}

double draw_recorded_share(uint64_t block, unsigned rate)
{
    if (rate > DRAW_RATE_LAST)
        return 0;

    double ladder = 1.0 / (double)(1u << rate), left = 1 - draw_control_share(block);

    return ladder < left ? ladder : left;
}
