#include "judge/judge.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "judge/keep.h"
#include "judge/replays.h"
#include "judge/shown.h"
#include "judge/trainers.h"
#include "judge/usual.h"
#include "query/bottlenecks_query.h"
#include "query/status_query.h"
#include "runs/runs.h"

/* What begins is sure of its price once nearly all of the recent steps have it; with the
 * looks that it must be seen in, that is at most ten seconds, or thirty steps. */
#define RECENT_NS    INT64_C(7000000000)
#define RECENT_STEPS 20

/* Steps do not end where a window does. */
#define FULL 0.9

/* A look takes some 3 ms, and now and then a replay: more trainers wait for their turn, eight
 * ranks 3 s. */
#define LOOKS_PER_FEED 3u

struct judge *judge_new(struct replays *replays)
{
    struct judge *judge = calloc(1, sizeof(*judge));

    if (judge != NULL) {
        pthread_mutex_init(&judge->lock, NULL);
        judge->replays = replays;
    }
    return judge;
}

void judge_free(struct judge *judge)
{
    if (judge == NULL)
        return;
    for (uint32_t i = 0; i < JUDGE_TRAINERS; i++)
        findings_free(&judge->trainers[i].shown);
    pthread_mutex_destroy(&judge->lock);
    free(judge);
}

static int ask(struct store *store, const struct selection *whose, struct window window,
               struct bottlenecks_answer *answer)
{
    struct bottlenecks_request request = {.k = 1}; /* nobody lists them */
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

    return recorded >= STANDING_STEPS && !answer->gpu.of_others;
}

/* The keeper alone changes what stands: others read it under the lock, he need not. */
static void remember_shown(struct judge *judge, struct trainer *trainer,
                           const struct bottlenecks_answer *usual,
                           const struct standing_look *look)
{
    const struct standing *standing = &trainer->standing;
    struct findings shown, before = trainer->shown;

    shown_find(standing, usual, &shown);
    shown_add(standing, usual, look->usual_relaxed, &shown);
    shown_add(standing, usual, look->recent_relaxed, &shown);
    shown_add(standing, usual, &before, &shown);
    pthread_mutex_lock(&judge->lock);
    trainer->shown = shown;
    pthread_mutex_unlock(&judge->lock);
    findings_free(&before);
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
    struct trainer *trainer = trainer_place(judge, &recent->head);

    if (look.last_step != NOT_KNOWN && look.last_step != trainer->last_step)
        standing_feed(&trainer->standing, &look);
    trainer->last_step = look.last_step;
    pthread_mutex_unlock(&judge->lock);
    remember_shown(judge, trainer, usual, &look);
    for (int i = 0; i < 4; i++)
        findings_free(&found[i]);
}

struct feed {
    struct judge *judge;
    struct store *store;
    struct runs *runs;
};

/* A wait that grew by half, and by what is told of a step, is a new one: of that steps before
 * it say nothing. */
#define GROWN_BY    0.5
#define GROWN_LEAST 0.03

static bool has_grown(double now, double before, double step)
{
    return now > (1 + GROWN_BY) * before && now - before >= GROWN_LEAST * step;
}

/* What the allocators' calls to the drivers take of a step. */
static double asking_ns(const struct memory_answer *memory)
{
    double ns = 0;

    for (uint32_t i = 0; i < memory->device_count; i++)
        if (memory->devices[i].driver_lasting_ns > 0)
            ns += memory->devices[i].driver_lasting_ns;
    return ns;
}

/* Of the newest steps too few are recorded to be replayed, and at times none of which the
 * device's work is known: then those of the usual window stand for them. */
static void lend(const struct bottlenecks_answer *usual,
                 struct bottlenecks_answer *recent)
{
    const struct steps_summary *train = &recent->steps.train;
    const struct gpu_device *device = gpu_busiest(&usual->gpu);

    recent->replay = usual->replay;
    if (gpu_busiest(&recent->gpu) != NULL || device == NULL ||
        has_grown(train->phase_ns[EVENT_PHASE_DATA], device->data_ns, train->mean_ns) ||
        has_grown(asking_ns(&recent->memory), asking_ns(&usual->memory),
                  train->mean_ns))
        return;
    recent->gpu.devices = usual->gpu.devices;
    recent->gpu.device_count = usual->gpu.device_count;
    recent->gpu.of_others = true;
}

static void feed_trainer(const struct feed *feed, const char *session, uint32_t pid)
{
    struct selection whose = {.rank = SELECT_ANY, .pid = pid};
    struct bottlenecks_answer usual, recent;

    memcpy(whose.session, session, strnlen(session, sizeof(whose.session) - 1));
    if (ask_recent(feed->store, &whose, &recent) == 0) {
        judge_recall(feed->judge, feed->runs, &recent.head);
        if (ask(feed->store, &whose, (struct window){WINDOW_LAST_NS, USUAL_NS, 0},
                &usual) == 0) {
            replays_for_rules(feed->judge->replays, feed->store, &whose, &usual);
            lend(&usual, &recent);
            feed_standing(feed->judge, &usual, &recent);
        }
        bottlenecks_free(&usual);
    }
    bottlenecks_free(&recent);
}

/* The trainers from number `first` on, at most LOOKS_PER_FEED of them. */
static uint32_t feed_some(const struct feed *feed, const struct status_answer *status,
                          uint32_t first)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < status->session_count; i++)
        for (uint32_t j = 0; j < status->sessions[i].process_count; j++) {
            const struct status_process *process = &status->sessions[i].processes[j];

            if (process->role != WIRE_ROLE_TRAINER ||
                process->state != PROCESS_RUNNING || process->steps == 0 ||
                count == JUDGE_TRAINERS)
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

static void tell_fixed(const struct standing *standing, struct judgement *judgement)
{
    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        const struct standing_entry *entry = &standing->entries[i];
        uint32_t at = judgement->fixed_count;

        if (entry->state != STANDING_FIXED)
            continue;
        while (at > 0 && judgement->fixed[at - 1].fixed_ns < entry->fixed_ns) {
            if (at < JUDGEMENT_FIXED)
                judgement->fixed[at] = judgement->fixed[at - 1];
            at--;
        }
        if (at < JUDGEMENT_FIXED)
            judgement->fixed[at] = *entry;
        judgement->fixed_count += judgement->fixed_count < JUDGEMENT_FIXED;
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
    trainer = trainer_find(judge, head->session, head->pid);
    for (uint32_t i = 0; i < JUDGE_TRAINERS; i++)
        room = room || judge->trainers[i].fed == 0;
    if (trainer != NULL)
        *standing = trainer->standing;
    else
        *standing = (struct standing){.looks = 0};
    pthread_mutex_unlock(&judge->lock);
    return trainer != NULL || room;
}

static void add_shown(struct judge *judge, const struct bottlenecks_answer *answer,
                      const struct standing *standing, struct findings *findings)
{
    const struct trainer *trainer;

    pthread_mutex_lock(&judge->lock);
    trainer = trainer_find(judge, answer->head.session, answer->head.pid);
    if (trainer != NULL)
        shown_add(standing, answer, &trainer->shown, findings);
    pthread_mutex_unlock(&judge->lock);
}

/* False where findings are judged as they are. */
static bool find_standing(struct judge *judge, const struct bottlenecks_answer *answer,
                          struct judgement *judgement)
{
    struct standing *standing = malloc(sizeof(*standing));
    bool known = standing != NULL && copy_standing(judge, &answer->head, standing);

    if (known) {
        shown_find(standing, answer, &judgement->findings);
        if (findings_are_sought(answer))
            add_shown(judge, answer, standing, &judgement->findings);
        tell_fixed(standing, judgement);
    }
    free(standing);
    return known;
}

/* Of a run that is over, as a whole: what stood when it ended stood since then, and what
 * had been fixed stays told. */
static void tell_ended(struct judge *judge, const struct answer *head,
                       struct judgement *judgement)
{
    struct standing *standing = malloc(sizeof(*standing));
    bool known = standing != NULL && copy_standing(judge, head, standing);

    for (uint32_t i = 0; known && i < judgement->findings.count; i++) {
        struct finding *finding = &judgement->findings.list[i];
        const struct standing_entry *entry = standing_find(standing, finding->id);

        if (entry != NULL && entry->state == STANDING_STANDS)
            finding->since_step = entry->since_step;
    }
    if (known)
        tell_fixed(standing, judgement);
    free(standing);
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
    const struct answer *head = &answer->head;
    bool whole = selection->window.kind == WINDOW_DEFAULT ||
                 selection->window.kind == WINDOW_RUN;

    judgement->fixed_count = 0;
    judgement->served = true;
    if (!usual_is(selection, head) || !find_standing(judge, answer, judgement))
        findings_find(answer, NULL, &judgement->findings);
    if (whole && !head->live && !head->from_file)
        tell_ended(judge, head, judgement);
    if (runs != NULL)
        hear_user(runs, &judgement->findings);
    findings_settle(answer, &judgement->findings);
    pinned_first(&judgement->findings);
}

void judgement_free(struct judgement *judgement)
{
    findings_free(&judgement->findings);
}
