#include "judge/judge.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "judge/said.h"
#include "query/bottlenecks_query.h"
#include "query/status_query.h"
#include "runs/runs.h"

#define USUAL_NS     INT64_C(60000000000)
#define RECENT_NS    INT64_C(10000000000)
#define RECENT_STEPS 30

/* Steps do not end where a window does. */
#define FULL 0.9

/* What stands is written down when it changes, and as often: feeds come once a second. */
#define KEEP_FEEDS 60u

/* A look takes some 3 ms: more trainers wait for their turn, eight ranks 3 s. */
#define LOOKS_PER_FEED 3u

/* What stands is said also where the usual window holds a tenth of it: it began a few
 * seconds ago, or is about to be fixed. */
#define STANDING 0.1

struct trainer {
    char session[64];
    uint32_t pid;
    int64_t last_step;
    uint64_t fed;  /* when, in feeds; 0: the place is free */
    uint64_t kept; /* the same, of what was written down */
    uint32_t kept_sum;
    struct standing standing;
};

struct judge {
    pthread_mutex_t lock; /* guards all below */
    struct trainer trainers[JUDGE_TRAINERS];
    uint64_t feeds;
    uint32_t next; /* the first trainer of the next feed; the keeper's alone */
};

struct judge *judge_new(void)
{
    struct judge *judge = calloc(1, sizeof(*judge));

    if (judge != NULL)
        pthread_mutex_init(&judge->lock, NULL);
    return judge;
}

void judge_free(struct judge *judge)
{
    if (judge == NULL)
        return;
    pthread_mutex_destroy(&judge->lock);
    free(judge);
}

/* NULL when it was never fed. */
static struct trainer *trainer_of(struct judge *judge, const char *session,
                                  uint32_t pid)
{
    for (uint32_t i = 0; i < JUDGE_TRAINERS; i++)
        if (judge->trainers[i].fed != 0 && judge->trainers[i].pid == pid &&
            strcmp(judge->trainers[i].session, session) == 0)
            return &judge->trainers[i];
    return NULL;
}

/* A place for it: its own, a free one, else that of the trainer that is longest gone. */
static struct trainer *place_for(struct judge *judge, const struct answer *head)
{
    struct trainer *place = trainer_of(judge, head->session, head->pid);

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
        *place = (struct trainer){.pid = head->pid, .last_step = NOT_KNOWN};
        memcpy(place->session, head->session, sizeof(place->session));
    }
    place->fed = judge->feeds;
    return place;
}

static int ask(struct store *store, const struct selection *whose, struct window window,
               struct bottlenecks_answer *answer)
{
    struct bottlenecks_request request = {.k = JUDGE_OPS};
    struct selection selection = *whose;

    selection.window = window;
    return bottlenecks_query(store, &selection, &request, answer);
}

/* The last seconds; where steps are long, the last steps. */
static int ask_recent(struct store *store, const struct selection *whose,
                      struct bottlenecks_answer *answer)
{
    int error =
        ask(store, whose, (struct window){WINDOW_LAST_NS, RECENT_NS, 0}, answer);

    if (error != 0 || answer->steps.train.count >= RECENT_STEPS)
        return error;
    bottlenecks_free(answer);
    return ask(store, whose, (struct window){WINDOW_LAST_STEPS, RECENT_STEPS, 0},
               answer);
}

static bool is_recorded(const struct bottlenecks_answer *answer)
{
    const struct steps_summary *train = &answer->steps.train;
    uint64_t recorded = answer->gpu.device_count > 0 ? train->kernels : train->recorded;

    return recorded >= STANDING_STEPS;
}

/* What a server before us said of it, where this one never looked. */
static void recall(struct judge *judge, struct runs *runs, const struct answer *head)
{
    char *said;
    bool known;

    pthread_mutex_lock(&judge->lock);
    known = trainer_of(judge, head->session, head->pid) != NULL;
    pthread_mutex_unlock(&judge->lock);
    said = known || runs == NULL ? NULL : runs_said(runs, head->session, head->pid);
    if (said == NULL)
        return;
    pthread_mutex_lock(&judge->lock);
    /* Half a text is none: then it begins anew. */
    if (!said_read(said, &place_for(judge, head)->standing))
        place_for(judge, head)->standing = (struct standing){.looks = 0};
    pthread_mutex_unlock(&judge->lock);
    free(said);
}

/* Changes when a finding comes or goes (FNV-1a). */
static uint32_t sum_of(const struct standing *standing)
{
    uint32_t sum = 0x811c9dc5u;

    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        const struct standing_entry *entry = &standing->entries[i];

        if (entry->state != STANDING_STANDS && entry->state != STANDING_FIXED)
            continue;
        for (const char *c = entry->id; *c != '\0'; c++)
            sum = (sum ^ (unsigned char)*c) * 0x01000193u;
        sum = (sum ^ (uint32_t)entry->state) * 0x01000193u;
    }
    return sum;
}

/* Writes down what is said of that trainer. */
static void keep(struct judge *judge, struct runs *runs, const struct trainer *trainer)
{
    char session[sizeof(trainer->session)], *said;
    uint32_t pid;

    pthread_mutex_lock(&judge->lock);
    memcpy(session, trainer->session, sizeof(session));
    pid = trainer->pid;
    said = said_print(&trainer->standing);
    pthread_mutex_unlock(&judge->lock);
    if (said != NULL)
        (void)runs_keep_said(runs, session, pid, said); /* the store says why not */
    cJSON_free(said);
}

void judge_keep(struct judge *judge, struct runs *runs, bool all)
{
    for (uint32_t i = 0; i < JUDGE_TRAINERS; i++) {
        struct trainer *trainer = &judge->trainers[i];
        bool due;

        pthread_mutex_lock(&judge->lock);
        uint32_t sum = sum_of(&trainer->standing);

        due = trainer->fed != 0 && trainer->fed > trainer->kept &&
              (all || sum != trainer->kept_sum ||
               trainer->fed - trainer->kept >= KEEP_FEEDS);
        trainer->kept = due ? trainer->fed : trainer->kept;
        trainer->kept_sum = sum;
        pthread_mutex_unlock(&judge->lock);
        if (due)
            keep(judge, runs, trainer);
    }
}

static void feed_standing(struct judge *judge, const struct bottlenecks_answer *usual,
                          const struct bottlenecks_answer *recent)
{
    struct findings_settings strict = findings_configured(), relaxed = strict;
    struct findings found[4];
    struct standing_look look = {.usual = &found[0],
                                 .usual_relaxed = &found[1],
                                 .recent = &found[2],
                                 .recent_relaxed = &found[3],
                                 .usual_level = gone_level_of(usual, FULL * USUAL_NS),
                                 .recent_level =
                                     gone_level_of(recent, FULL * RECENT_NS),
                                 .recent_is_recorded = is_recorded(recent),
                                 .last_step = recent->head.window.last_step,
                                 .now_ns = recent->head.now_ns};

    relaxed.relaxed = true;
    findings_find(usual, &strict, &found[0]);
    findings_find(usual, &relaxed, &found[1]);
    findings_find(recent, &strict, &found[2]);
    findings_find(recent, &relaxed, &found[3]);
    pthread_mutex_lock(&judge->lock);
    struct trainer *trainer = place_for(judge, &recent->head);

    if (look.last_step != NOT_KNOWN && look.last_step != trainer->last_step)
        standing_feed(&trainer->standing, &look);
    trainer->last_step = look.last_step;
    pthread_mutex_unlock(&judge->lock);
    for (int i = 0; i < 4; i++)
        findings_free(&found[i]);
}

struct feed {
    struct judge *judge;
    struct store *store;
    struct runs *runs;
};

static void feed_trainer(const struct feed *feed, const char *session, uint32_t pid)
{
    struct selection whose = {.rank = SELECT_ANY, .pid = pid};
    struct bottlenecks_answer usual, recent;

    memcpy(whose.session, session, strnlen(session, sizeof(whose.session) - 1));
    if (ask_recent(feed->store, &whose, &recent) == 0) {
        recall(feed->judge, feed->runs, &recent.head);
        if (ask(feed->store, &whose, (struct window){WINDOW_LAST_NS, USUAL_NS, 0},
                &usual) == 0)
            feed_standing(feed->judge, &usual, &recent);
        bottlenecks_free(&usual);
    }
    bottlenecks_free(&recent);
}

static bool is_watched(const struct status_process *process)
{
    return process->role == WIRE_ROLE_TRAINER && process->state == PROCESS_RUNNING &&
           process->steps > 0;
}

/* The trainers from number `first` on, at most LOOKS_PER_FEED of them. */
static uint32_t feed_some(const struct feed *feed, const struct status_answer *status,
                          uint32_t first)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < status->session_count; i++)
        for (uint32_t j = 0; j < status->sessions[i].process_count; j++) {
            const struct status_process *process = &status->sessions[i].processes[j];

            if (!is_watched(process) || count == JUDGE_TRAINERS)
                continue;
            if (count >= first && count < first + LOOKS_PER_FEED)
                feed_trainer(feed, status->sessions[i].id, process->pid);
            count++;
        }
    return count;
}

void judge_feed(struct judge *judge, struct store *store, struct runs *runs)
{
    struct feed feed = {judge, store, runs};
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer status;

    judge->feeds++;
    if (status_query(store, &whose, &status) == 0) {
        uint32_t count = feed_some(&feed, &status, judge->next);

        judge->next =
            judge->next + LOOKS_PER_FEED < count ? judge->next + LOOKS_PER_FEED : 0;
    }
    answer_free(&status.head);
    if (runs != NULL)
        judge_keep(judge, runs, false);
}

/* Over the usual window of what runs. */
static bool is_usual(const struct selection *selection, const struct answer *head)
{
    const struct window *window = &selection->window;

    return head->live && !head->from_file &&
           (window->kind == WINDOW_DEFAULT ||
            (window->kind == WINDOW_LAST_NS && window->a == USUAL_NS));
}

/* Finds also what stands without costing its threshold over the usual window. */
static struct findings_settings standing_settings(const struct standing *standing)
{
    struct findings_settings settings = findings_configured();
    const struct finding_rule *rule;

    settings.by_price = true;

    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++) {
        double threshold =
            isnan(settings.thresholds[i]) ? rule->threshold : settings.thresholds[i];
        double stays = rule->stays > 0 ? rule->stays : FINDING_STAYS;

        for (uint32_t j = 0; j < STANDING_MAX; j++)
            if (standing->entries[j].state == STANDING_STANDS &&
                strncmp(standing->entries[j].id, rule->id, strlen(rule->id)) == 0)
                settings.thresholds[i] = threshold * (rule->trend ? stays : STANDING);
    }
    return settings;
}

/* What the newest steps do not show any more is about to be fixed while the usual window
 * still holds some of it; later on nobody sees it. */
static bool is_seen(const struct standing_entry *entry, int64_t now_ns)
{
    return entry->state == STANDING_STANDS &&
           (entry->missed_step == NOT_KNOWN || now_ns - entry->missed_ns <= USUAL_NS);
}

static void keep_standing(const struct standing *standing, int64_t now_ns,
                          struct findings *findings)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < findings->count; i++) {
        const struct standing_entry *entry =
            standing_find(standing, findings->list[i].id);

        if (entry == NULL || !is_seen(entry, now_ns))
            continue;
        findings->list[kept] = findings->list[i];
        findings->list[kept++].since_step = entry->since_step;
    }
    findings->count = kept;
}

static void tell_fixed(const struct standing *standing, struct judgement *judgement)
{
    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        const struct standing_entry *entry = &standing->entries[i];
        uint32_t at = judgement->fixed_count;

        if (entry->state != STANDING_FIXED)
            continue;
        while (at > 0 && judgement->fixed[at - 1].fixed_ns < entry->fixed_ns) {
            if (at < JUDGE_FIXED)
                judgement->fixed[at] = judgement->fixed[at - 1];
            at--;
        }
        if (at < JUDGE_FIXED)
            judgement->fixed[at] = *entry;
        judgement->fixed_count += judgement->fixed_count < JUDGE_FIXED;
    }
}

/* A copy of what is known of that process; false where nobody looks at it. One that will
 * be looked at within a second has no finding that stands. */
static bool copy_standing(struct judge *judge, const struct answer *head,
                          struct standing *standing)
{
    const struct trainer *trainer;
    bool room = false;

    pthread_mutex_lock(&judge->lock);
    trainer = trainer_of(judge, head->session, head->pid);
    for (uint32_t i = 0; i < JUDGE_TRAINERS; i++)
        room = room || judge->trainers[i].fed == 0;
    if (trainer != NULL)
        *standing = trainer->standing;
    else
        *standing = (struct standing){.looks = 0};
    pthread_mutex_unlock(&judge->lock);
    return trainer != NULL || room;
}

/* False where findings are judged as they are. */
static bool find_standing(struct judge *judge, const struct bottlenecks_answer *answer,
                          struct judgement *judgement)
{
    struct standing *standing = malloc(sizeof(*standing));
    bool known = standing != NULL && copy_standing(judge, &answer->head, standing);

    if (known) {
        struct findings_settings settings = standing_settings(standing);

        findings_find(answer, &settings, &judgement->findings);
        keep_standing(standing, answer->head.now_ns, &judgement->findings);
        tell_fixed(standing, judgement);
    }
    free(standing);
    return known;
}

static bool said(const cJSON *verdict, const char *what)
{
    return cJSON_IsTrue(cJSON_GetObjectItem(verdict, what));
}

static void hear_user(struct runs *runs, struct findings *findings)
{
    cJSON *verdicts = runs_verdicts(runs);

    for (uint32_t i = 0; i < findings->count; i++) {
        struct finding *finding = &findings->list[i];
        const cJSON *verdict = cJSON_GetObjectItemCaseSensitive(verdicts, finding->id);
        const char *reason =
            cJSON_GetStringValue(cJSON_GetObjectItem(verdict, "reason"));

        finding->dismissed = said(verdict, "dismissed");
        finding->pinned = said(verdict, "pinned");
        if (reason != NULL)
            finding->reason = arena_text(&findings->arena, reason);
    }
    cJSON_Delete(verdicts);
}

static void pinned_first(struct findings *findings)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < findings->count; i++) {
        struct finding moved = findings->list[i];

        if (!moved.pinned)
            continue;
        memmove(&findings->list[at + 1], &findings->list[at],
                (i - at) * sizeof(findings->list[0]));
        findings->list[at++] = moved;
    }
}

void judge_findings(struct judge *judge, struct runs *runs,
                    const struct selection *selection,
                    const struct bottlenecks_answer *answer,
                    struct judgement *judgement)
{
    judgement->fixed_count = 0;
    if (judge == NULL || !is_usual(selection, &answer->head) ||
        !find_standing(judge, answer, judgement))
        findings_find(answer, NULL, &judgement->findings);
    if (runs != NULL)
        hear_user(runs, &judgement->findings);
    findings_settle(answer, &judgement->findings);
    pinned_first(&judgement->findings);
}

void judgement_free(struct judgement *judgement)
{
    findings_free(&judgement->findings);
}
