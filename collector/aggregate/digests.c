#include "aggregate/digests.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"

/* Eight into one: each event is merged once per level, so few levels cost little. */
#define FAN 8u

#define CACHE_LINE 64u

void digests_init(struct digests *digests, size_t bytes_max)
{
    *digests = (struct digests){.bytes_max =
                                    bytes_max > 0 ? bytes_max : DIGESTS_BYTES_DEFAULT};
}

void digests_free(struct digests *digests)
{
    for (uint32_t c = 0; c < DIGEST_CLASSES; c++) {
        for (uint32_t l = 0; l < DIGESTS_LEVELS; l++) {
            struct digest_level *level = &digests->levels[c][l];

            for (uint32_t i = 0; i < level->count; i++)
                free(level->items[i]);
            free(level->items);
        }
    }
    tally_free(&digests->merging);
    *digests = (struct digests){0};
}

static bool append(struct digests *digests, struct digest_level *level,
                   struct digest *digest)
{
    if (level->count == level->capacity) {
        uint32_t capacity = level->capacity == 0 ? 16 : level->capacity * 2;
        struct digest **items =
            realloc(level->items, capacity * sizeof(struct digest *));

        if (items == NULL)
            return false;
        level->items = items;
        level->capacity = capacity;
    }
    level->items[level->count++] = digest;
    level->bytes += digest->bytes;
    digests->bytes += digest->bytes;
    return true;
}

/* Gives up the `count` oldest of a level: the caller has them. */
static void drop_oldest(struct digests *digests, struct digest_level *level,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        level->bytes -= level->items[i]->bytes;
        digests->bytes -= level->items[i]->bytes;
    }
    level->count -= count;
    memmove(level->items, level->items + count, level->count * sizeof(struct digest *));
}

static void span_add(struct digest_span *to, const struct digest_span *from)
{
    to->from_ns = from->from_ns < to->from_ns ? from->from_ns : to->from_ns;
    to->to_ns = from->to_ns > to->to_ns ? from->to_ns : to->to_ns;
    if (to->first_step == INT64_MIN)
        to->first_step = from->first_step;
    if (from->last_step != INT64_MIN)
        to->last_step = from->last_step;
    to->steps += from->steps;
    to->ops_steps += from->ops_steps;
    to->kernel_steps += from->kernel_steps;
    to->step_ns = sum_ns(to->step_ns, from->step_ns);
}

static uint32_t rows_needed(const struct digest *digest)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < digest->row_count; i++)
        most = digest->rows[i].row > most ? digest->rows[i].row : most;
    return most + 1;
}

static bool prepend(struct digests *digests, struct digest_level *level,
                    struct digest *digest)
{
    if (!append(digests, level, digest))
        return false;
    memmove(level->items + 1, level->items,
            (level->count - 1) * sizeof(struct digest *));
    level->items[0] = digest;
    return true;
}

/* Old digests lie in no near cache, and reading them is half of merging them. */
static void fetch(const struct digest *digest)
{
    const char *bytes = (const char *)digest;

    for (size_t at = 0; at < digest->bytes; at += CACHE_LINE)
        __builtin_prefetch(bytes + at);
}

/* Merges the `count` oldest of levels[at] into one of the next level; fewer than FAN
 * stay the oldest of their own. */
static void merge(struct digests *digests, struct digest_level *levels, uint32_t at,
                  uint32_t count)
{
    struct digest_span span = levels[at].items[0]->span;
    bool climbs = count == FAN && at + 1 < DIGESTS_LEVELS;

    struct digest *oldest[FAN];

    memcpy(oldest, levels[at].items, count * sizeof(oldest[0]));
    drop_oldest(digests, &levels[at], count);
    for (uint32_t i = 0; i < count; i++) {
        struct digest *digest = oldest[i];

        if (i + 1 < count)
            fetch(oldest[i + 1]);
        if (tally_reserve(&digests->merging, rows_needed(digest)))
            tally_add_digest(&digests->merging, digest);
        else
            digests->refused++;
        if (i > 0)
            span_add(&span, &digest->span);
        free(digest);
    }
    /* A quarter of everything for the cells of one: then the limit can be kept. */
    struct digest *merged =
        tally_seal(&digests->merging, &span, false,
                   (uint32_t)(digests->bytes_max / 4 / sizeof(uint32_t)));

    digests->merges++;
    if (merged == NULL || !(climbs ? append(digests, &levels[at + 1], merged)
                                   : prepend(digests, &levels[at], merged))) {
        free(merged);
        digests->refused++;
    }
}

/* The level whose oldest go first: the fullest that has enough to merge. */
static struct digest_level *fullest(struct digests *digests, uint32_t least,
                                    uint32_t *class, uint32_t *at)
{
    struct digest_level *found = NULL;

    for (uint32_t c = 0; c < DIGEST_CLASSES; c++) {
        for (uint32_t l = 0; l < DIGESTS_LEVELS; l++) {
            struct digest_level *level = &digests->levels[c][l];

            if (level->count < least || (found != NULL && level->bytes <= found->bytes))
                continue;
            found = level;
            *class = c;
            *at = l;
        }
    }
    return found;
}

/* Two lone neighbours of different levels: the newer one is taken as of the older's. */
static bool promote(struct digests *digests)
{
    for (uint32_t c = 0; c < DIGEST_CLASSES; c++) {
        struct digest_level *levels = digests->levels[c], *older = NULL;

        for (uint32_t l = DIGESTS_LEVELS; l-- > 0;) {
            if (levels[l].count == 0)
                continue;
            if (older == NULL) {
                older = &levels[l];
                continue;
            }
            struct digest *digest = levels[l].items[0];

            drop_oldest(digests, &levels[l], 1);
            if (append(digests, older, digest))
                return true;
            free(digest);
            digests->refused++;
            return false;
        }
    }
    return false;
}

void digests_push(struct digests *digests, enum digest_class class,
                  struct digest *digest)
{
    uint32_t c = 0, at = 0;

    if (!append(digests, &digests->levels[class][0], digest)) {
        free(digest);
        digests->refused++;
        return;
    }
    while (digests->bytes > digests->bytes_max) {
        if (fullest(digests, FAN, &c, &at) != NULL)
            merge(digests, digests->levels[c], at, FAN);
        else if (fullest(digests, 2, &c, &at) != NULL)
            merge(digests, digests->levels[c], at, 2);
        else if (!promote(digests))
            break;
    }
}

void digests_visit(const struct digests *digests, enum digest_class class,
                   const int64_t range_ns[2], digests_visitor *visit, void *user)
{
    for (uint32_t l = DIGESTS_LEVELS; l-- > 0;) {
        const struct digest_level *level = &digests->levels[class][l];

        for (uint32_t i = 0; i < level->count; i++) {
            const struct digest_span *span = &level->items[i]->span;

            if (span->to_ns > range_ns[0] && span->from_ns < range_ns[1])
                visit(user, level->items[i]);
        }
    }
}
