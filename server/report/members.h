/* Reading a document that may lack anything: a missing number is NaN, a missing text "". */
#ifndef REPORT_MEMBERS_H
#define REPORT_MEMBERS_H

#include <cjson/cJSON.h>
#include <math.h>

#include "findings/figure.h"

/* Members under members; NULL where one is missing. `path` ends with NULL. */
const cJSON *members_find(const cJSON *object, const char *const *path);

double members_number(const cJSON *item);
const char *members_text(const cJSON *item);

/* Takes `list`; what it gives is owed instead. `order` is qsort()'s, over cJSON *. */
cJSON *members_sorted(cJSON *list, int (*order)(const void *, const void *));

/* Of a report: the session that it is about, as its status has it; NULL without. */
const cJSON *members_session(const cJSON *report);

/* What the session's numbers are without, in sentences of plain text, in `text`; "" where
 * nothing is missing. */
#define MEMBERS_LOSSES_BYTES 400
const char *members_losses(char text[MEMBERS_LOSSES_BYTES], const cJSON *session);

/* Of the bottlenecks of a report without findings: its verdict, that there are too few steps
 * for one, in `text`, or that nothing stands out. With findings its verdict, "" without. */
#define MEMBERS_VERDICT_BYTES 80
const char *members_verdict(char text[MEMBERS_VERDICT_BYTES], const cJSON *report);

/* A time as people read it, in `text`: "14.3 ms", "1.32 s"; "–" where it is not known. */
#define MEMBERS_TIME_BYTES 24
const char *members_time(char text[MEMBERS_TIME_BYTES], double ms);

/* False where that item of a finding's evidence is no figure but what is told elsewhere: the
 * sentence, the worst step and its trace. `figure` points into the item. */
bool members_figure(const cJSON *item, struct figure *figure);

#define MEMBER(object, ...)                                                            \
    members_find(object, (const char *const[]){__VA_ARGS__, NULL})
#define NUMBER(object, ...) members_number(MEMBER(object, __VA_ARGS__))
#define TIME(ms)            members_time((char[MEMBERS_TIME_BYTES]){0}, ms)
#define TEXT(object, ...)   members_text(MEMBER(object, __VA_ARGS__))

#endif
