/* Ranks of a folder side by side, under the reports of each. */
#include <math.h>
#include <stdio.h>

#include "analyze.h"
#include "command/terminal.h"
#include "query/ranks_query.h"

void analyze_report_ranks(const struct ranks_answer *answer)
{
    printf("Ranks  %4s %9s %9s %9s %9s %9s\n", "", "step ms", "own", "waits", "data",
           "forward");
    for (uint32_t i = 0; i < answer->row_count; i++) {
        const struct rank_row *row = &answer->rows[i];

        printf("  rank %4d %s %s %s %s %s\n", row->rank, MS_TEXT(row->step_ns, 9),
               MS_TEXT(row->own_ns, 9), MS_TEXT(row->wait_ns, 9),
               MS_TEXT(row->phase_ns[EVENT_PHASE_DATA], 9),
               MS_TEXT(row->phase_ns[EVENT_PHASE_FORWARD], 9));
    }
    if (!answer->comparable) {
        printf("  not comparable: %s\n", answer->head.reason);
    } else if (answer->slowest < 0) {
        puts("  no rank stands out");
    } else {
        printf("  rank %d is the slowest in %.0f %% of the steps, by %s ms per step "
               "(%s)\n",
               answer->slowest, 100 * answer->slowest_share,
               MS_TEXT(answer->slowest_by_ns, 0), answer->slowest_cause);
    }
    putchar('\n');
}
