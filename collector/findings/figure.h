/* Evidence as people read it: what was measured, and how much. */
#ifndef FINDINGS_FIGURE_H
#define FINDINGS_FIGURE_H

#include "findings/findings.h"

struct figure {
    char name[64];     /* "worst extra" */
    char number[64];   /* "40.7 ms", "7 per step"; of a text empty */
    const char *value; /* that number, or the text of the evidence */
};

/* Of texts that may be as long as a page so much is shown. */
#define FIGURE_TEXT 160u

/* Its length, at most FIGURE_TEXT bytes and no half of a character (UTF-8). */
int figure_length(const char *text);

/* The end of a key is the unit of its number: worst_extra_ms, bytes_per_s. The page does the
 * same (web/js/model/format.js). `figure` holds what it points to and must not be moved. */
void figure_of(const struct finding_evidence *evidence, struct figure *figure);

#endif
