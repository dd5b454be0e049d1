/* Findings of one live process from look to look: which stand, which were fixed.
 *
 * Pure: it is fed with what two looks at the tables found, and with the steps and the
 * stamp that they ended at; it knows no clock. A finding
 *   appears  when every look of STANDING_STEPS steps found it and its interval says
 *            enough: half of it is at most half of the price;
 *   stays    while a relaxed look (findings_settings.relaxed) finds it;
 *   goes     when no relaxed look of STANDING_STEPS steps did. It is fixed once a full
 *            window after the change says so (findings/gone.h), and is told so for
 *            STANDING_FIXED_NS of the session's time. Until then it stands unseen, and is
 *            the same finding when it comes back; after as long it is forgotten.
 * What changes within seconds is judged by the recent steps alone, so that a fix shows
 * before the usual window has forgotten what was; trends are judged by the usual window.
 * One that may be seen early is judged by the recent steps where these are sure of it, and
 * when they have seen it where they are sure that it is gone; not of one that came back,
 * for it comes in bursts.
 */
#ifndef FINDINGS_STANDING_H
#define FINDINGS_STANDING_H

#include "findings/findings.h"
#include "findings/gone.h"

#define STANDING_MAX      96u
#define STANDING_STEPS    10
#define STANDING_LOOKS    2u
#define STANDING_FIXED_NS INT64_C(600000000000)
#define STANDING_ID       64u
#define STANDING_TITLE    120u

enum standing_state {
    STANDING_NONE,
    STANDING_SEEN, /* not yet long enough */
    STANDING_STANDS,
    STANDING_FIXED,
};

struct standing_entry {
    const struct finding_rule *rule;
    char id[STANDING_ID];
    char title[STANDING_TITLE];
    enum standing_state state;
    int64_t since_step;  /* the first step at which it was found */
    int64_t missed_step; /* the first at which it was not; NOT_KNOWN */
    int64_t missed_ns;   /* when that was */
    int64_t fixed_step;  /* the first without it */
    int64_t fixed_ns;    /* when that was known */
    int64_t whole_step;  /* the newest with its whole price */
    double ns_per_step;  /* its usual price while it stood */
    uint32_t looks;      /* in a row that found it, or that missed it */
    bool early;          /* a trend that the recent steps were sure of */
    bool recurs; /* and that came back soon after they were sure that it had gone */
    struct gone_former former;
};

struct standing {
    struct standing_entry entries[STANDING_MAX];
    uint64_t looks;
};

/* The same process at one moment. The relaxed lists hold the others. */
struct standing_look {
    const struct findings *usual, *usual_relaxed;   /* over the usual window */
    const struct findings *recent, *recent_relaxed; /* over the newest steps */
    struct gone_level usual_level, recent_level;
    bool recent_is_recorded; /* enough of the newest steps in full, for such rules */
    int64_t last_step;       /* the newest */
    int64_t now_ns;          /* the session's newest stamp */
};

void standing_feed(struct standing *standing, const struct standing_look *look);

/* NULL when nothing is known of it. */
const struct standing_entry *standing_find(const struct standing *standing,
                                           const char *id);

#endif
