#include "judge/trainers.h"

#include <string.h>

struct trainer *trainer_find(struct judge *judge, const char *session, uint32_t pid)
{
    for (uint32_t i = 0; i < JUDGE_TRAINERS; i++)
        if (judge->trainers[i].fed != 0 && judge->trainers[i].pid == pid &&
            strcmp(judge->trainers[i].session, session) == 0)
            return &judge->trainers[i];
    return NULL;
}

struct trainer *trainer_place(struct judge *judge, const struct answer *head)
{
    struct trainer *place = trainer_find(judge, head->session, head->pid);

    for (uint32_t i = 0; place == NULL && i < JUDGE_TRAINERS; i++)
        place = judge->trainers[i].fed == 0 ? &judge->trainers[i] : NULL;
    if (place == NULL) {
        place = &judge->trainers[0];
        for (uint32_t i = 1; i < JUDGE_TRAINERS; i++)
            if (judge->trainers[i].fed < place->fed)
                place = &judge->trainers[i];
        place->fed = 0;
    }
    if (place->fed == 0) {
        findings_free(&place->shown);
        *place = (struct trainer){.pid = head->pid, .last_step = NOT_KNOWN};
        memcpy(place->session, head->session, sizeof(place->session));
    }
    place->fed = judge->feeds;
    return place;
}
