/* The window that is looked at where nobody asks for another: the newest minute of what
 * runs. */
#ifndef JUDGE_USUAL_H
#define JUDGE_USUAL_H

#include "query/answer.h"

#define USUAL_NS INT64_C(60000000000)

/* Is this answer's selection that window, under either of its names? */
static inline bool usual_is(const struct selection *selection,
                            const struct answer *head)
{
    const struct window *window = &selection->window;

    return head->live && !head->from_file &&
           (window->kind == WINDOW_DEFAULT ||
            (window->kind == WINDOW_LAST_NS && window->a == USUAL_NS));
}

#endif
