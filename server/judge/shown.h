/* Of what stands of a live process, what is shown: as the usual window has it, also where
 * that holds little of it.
 */
#ifndef JUDGE_SHOWN_H
#define JUDGE_SHOWN_H

#include "findings/findings.h"
#include "findings/standing.h"
#include "query/bottlenecks_query.h"

/* findings_free() is owed. */
void shown_find(const struct standing *standing, const struct bottlenecks_answer *usual,
                struct findings *findings);

/* Copies to `findings` of that answer what they lack of `others`, found by another look or an
 * earlier one, and still stands: one look in which too little was sure neither takes it nor
 * brings it back. A copy owns nothing of the avoidable time: what the answer itself found may
 * be the same time. */
void shown_add(const struct standing *standing, const struct bottlenecks_answer *usual,
               const struct findings *others, struct findings *findings);

#endif
