/* What became slower or faster from one run to others: documents in, a document out.
 *
 * A document is what `analyze --json` prints and /api/analysis gives: of a trace file, of
 * a session, of an earlier run. Everything is per step; where one of the two has no
 * steps, all of it is compared (`per` says which).
 *
 * A change carries its 95 % interval, from the spread of the steps on both sides, and is
 * called one (`changed`) when the interval does not touch zero. Ops are many, so each
 * must pass a stricter test, and differ by more than two runs of one job do anyway. What
 * has no spread (a single step) is never called changed.
 *
 * Findings are taken as each document holds them, and told apart by their ids. One that
 * is gone is not found any more: its price lies below its rule's threshold, which need
 * not be nothing (its difference is called changed where it is more than that, and than the
 * other price is sure of), or nobody recorded there what its rule reads.
 */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include <cjson/cJSON.h>

#include "report/fail_on.h"
#include "wire/attributes.h"

#define COMPARE_MAX 16u /* documents against one base */

/* Rows of findings at most: FINDINGS_MAX of each side. */
#define COMPARE_FINDINGS_MAX 160u

/* Of the ops that are listed as changed by chance alone, one in a thousand tables: the
 * factor from a 95 % interval to one for 1,000 rows at once. */
#define COMPARE_OPS_STRICTNESS 2.1
/* Rows of two runs of one job on one machine differ by about this. */
#define COMPARE_OPS_FLOOR 0.02

/* What compare_documents() reads of a document, and nothing else: to keep. */
cJSON *compare_extract(const cJSON *document);

/* {base, others: [{name, session, steps, step_ms, phases, memory, findings: [{id,
 * title, base_ms_per_step, ms_per_step, diff_ms, state}], ops, ...}]}, and the parts of
 * the first other at the top too. A finding's `state` is "gone", "new" or "same", its
 * price null where it is not found; the largest difference stands first. Where a side has
 * no list of them there are none, and `findings_reason` says why. NULL when out of
 * memory. */
MUST_CHECK cJSON *compare_documents(const cJSON *base, const cJSON *const *others,
                                    unsigned count);

/* The number of an expression in one of `others`: in % the change against the base, else
 * what the other has. 0, or -ENODATA with a sentence. */
MUST_CHECK int compare_look_up(const struct fail_on *expression, const cJSON *other,
                               struct fail_on_measure *measure, char *reason,
                               size_t size);

#endif
