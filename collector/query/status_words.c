/* Names of states and sources; sessions by their id. */
#include <stddef.h>
#include <string.h>

#include "query/status_query.h"
#include "wire/words.h"

const struct status_session *status_session_find(const struct status_answer *status,
                                                 const char *id)
{
    for (uint32_t i = 0; i < status->session_count; i++)
        if (strcmp(status->sessions[i].id, id) == 0)
            return &status->sessions[i];
    return NULL;
}

const char *status_state_word(uint32_t process_state)
{
    static const char *const words[] = {[PROCESS_RUNNING] = "running",
                                        [PROCESS_ENDED] = "ended",
                                        [PROCESS_CRASHED] = "crashed",
                                        [PROCESS_LOST] = "lost"};

    return process_state < sizeof(words) / sizeof(words[0]) ? words[process_state]
                                                            : "unknown";
}

const char *status_source_word(uint32_t source)
{
    return source == STATUS_SOURCE_NVML ? "nvml" : wire_source_word(source);
}
