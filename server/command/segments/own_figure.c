#include "command/segments/own_figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command/segments/segment_file.h"

#define RELAXED(word) atomic_load_explicit(&(word), memory_order_relaxed)

static double pct_of(const _Atomic uint64_t *bits)
{
    uint64_t word = RELAXED(*bits);
    double pct;

    memcpy(&pct, &word, sizeof(pct));
    return isfinite(pct) ? pct : (double)NAN;
}

static bool read_governor(const char *folder, const char *name,
                          struct own_figure *figure)
{
    struct segment_file file;
    const char *reason;

    if (segment_file_open(&file, folder, name, &reason) != 0)
        return false;
    const struct wire_governor *sums = &file.view.header->governor;
    uint64_t sequence = RELAXED(sums->sequence);

    figure->measured_pct = pct_of(&sums->measured);
    figure->low_pct = pct_of(&sums->ci_low);
    figure->high_pct = pct_of(&sums->ci_high);
    figure->budget_pct = pct_of(&sums->budget);
    figure->steps = RELAXED(file.view.header->steps);
    segment_file_close(&file);
    /* Odd: it was killed while it wrote. */
    return sequence != 0 && sequence % 2 == 0 && !isnan(figure->measured_pct);
}

bool own_figure_read(const char *folder, const char *session, struct own_figure *figure)
{
    struct segment_entry *entries;
    int count = segment_list(folder, &entries), most = -1;
    bool known;

    for (int i = 0; i < count; i++)
        if (entries[i].steps > 0 &&
            (session == NULL || strcmp(entries[i].session, session) == 0) &&
            (most < 0 || entries[i].steps > entries[most].steps))
            most = i;
    known = most >= 0 && read_governor(folder, entries[most].file, figure);
    free(entries);
    return known;
}
