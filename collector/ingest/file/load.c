/* One trace file from its first byte to a session of the store. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/state.h"
#include "ingest/file/foreign.h"
#include "ingest/file/parts.h"

const char *file_skip_text(enum file_skip skip)
{
    static const char *const texts[FILE_SKIPS] = {
        [FILE_SKIP_UNFINISHED] = "not finished when the recording ended",
        [FILE_SKIP_DURATION] = "an impossible time or duration",
        [FILE_SKIP_CATEGORY] = "a category that is not known",
        [FILE_SKIP_PAIRS] = "a begin without its end, or the other way round (B, E)",
        [FILE_SKIP_STRAY] = "a time far from all others",
        [FILE_SKIP_LIMIT] = "more events or threads than fit",
    };

    return texts[skip];
}

const char *file_remark_text(enum file_remark remark)
{
    static const char *const texts[FILE_REMARKS] = {
        [FILE_REMARK_UNLINKED] =
            "launches that are not in the file: their device work is no op's",
        [FILE_REMARK_LOST] =
            "launches whose kernels are not in the file: from there on it "
            "is unknown what an idle device did",
        [FILE_REMARK_VALUES] =
            "arguments that should be numbers: read as if they were not there",
        [FILE_REMARK_NAMES] = "names beyond what fits: one row stands for them all",
        [FILE_REMARK_DETAILS] = "ops whose shapes, stack or module found no room",
        [FILE_REMARK_MARKS] =
            "marks of steps, phases and long calls that found no room",
        [FILE_REMARK_SEQUENCES] =
            "ops whose sequence number found no room: backward stands where it ran",
        [FILE_REMARK_DEPTH] =
            "ops and calls nested deeper than 512: their time is that "
            "of what they lie in",
        [FILE_REMARK_STREAMS] =
            "device work of more streams than 64 that are named by a pointer: shown on "
            "stream 0",
    };

    return texts[remark];
}

static void release(struct file *file)
{
    for (uint32_t i = 0; i < file->thread_count; i++) {
        track_free(&file->threads[i].taken);
        track_free(&file->threads[i].nested);
    }
    free(file->kinds);
    track_free(&file->works);
    track_free(&file->allocations);
    void *const owned[] = {
        file->longs.items,      file->needless.items, file->marks.items,
        file->samples.items,    file->steps.items,    file->backwards.items,
        file->foreground.items, file->phases.items,   file->nodes.items,
        file->closures.items,   file->builds.items,   file->lost.items,
        file->captures.items,   file->sizes.items,    file->links,
        file->from_host,        file->to_host,        file->launched,
        file->needless_ops,     file->linked,         file->kernels};

    for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
        free(owned[i]);
    file_free_pairs(file);
    file_details_free(file->details);
    file_sequences_free(file->sequences);
    free(file);
}

/* ---- reading -------------------------------------------------------------------------- */

static void note_report(const struct trace_reader *reader, struct file_result *result)
{
    const struct trace_report *report = trace_reader_report(reader);

    result->is_gzip = report->is_gzip;
    result->is_cut = report->is_cut;
    result->is_array = trace_reader_head(reader)->is_array;
    result->file_bytes = report->file_bytes;
    result->text_bytes = report->text_bytes;
    result->events = report->events;
    snprintf(result->error, sizeof(result->error), "%s", report->error);
    result->remarks[FILE_REMARK_VALUES] = report->values_unreadable;
    result->remarks[FILE_REMARK_NAMES] = report->names_refused;
    memcpy(result->reader_skipped, report->skipped, sizeof(report->skipped));
    memcpy(result->reader_offset, report->first_offset, sizeof(report->first_offset));
}

static ssize_t read_member(void *archive, void *to, size_t size, uint64_t *packed_bytes)
{
    return archive_read(archive, to, size, packed_bytes);
}

static int read_all(struct file *file, struct trace_reader *reader,
                    const struct file_request *request, const struct file_part *part)
{
    struct file_result *result = file->result;
    int opened, error;

    if (part->archive == NULL) {
        opened = error = trace_reader_open(reader, request->path);
    } else {
        trace_reader_open_source(
            reader, &(struct trace_source){.read = read_member, .user = part->archive});
        opened = error = archive_enter(part->archive, part->member);
    }
    if (opened == 0) {
        if (request->on_start != NULL)
            request->on_start(request->user, reader);
        error = trace_reader_run(reader, file_take, file);
        if (request->on_start != NULL)
            request->on_end(request->user);
    }
    file_end_pairs(file);
    note_report(reader, result);
    if (opened != 0 && part->archive != NULL)
        (void)snprintf(result->error, sizeof(result->error), "%s",
                       opened == -ENOTSUP
                           ? "is encrypted, or packed by another method than deflate"
                       : opened == -EBADMSG ? "is damaged in the archive, or cut"
                                            : strerror(-opened));
    return file->out_of_memory ? -ENOMEM : error;
}

/* What each step needs for itself is gone before the next one: memory is for the events. */
static int arrange(struct file *file)
{
    int error = file_link_works(file);

    if (error == 0 && file->sequences != NULL)
        error = file_sequences_index(file->sequences, file->zero_ns);
    for (uint32_t turn = 0; turn < FILE_SEQUENCES_TURNS; turn++)
        for (uint32_t i = 0; i < file->thread_count && error == 0; i++)
            if (turn == (file->sequences == NULL ? 0 : file_sequences_turn(file, i)))
                error = file_order(file, &file->threads[i]);
    if (error == 0)
        file_count_unlinked(file);
    free(file->links);
    free(file->launched);
    file->links = NULL;
    file->launched = NULL;
    return error == 0 ? file_find_steps(file) : error;
}

static void finish(struct file *file, struct store *store, struct trace_reader *reader,
                   struct process *process)
{
    pthread_rwlock_wrlock(&store->lock);
    file_say_facts(file, process, reader);
    file_say_capabilities(file, process);
    process_finish(process, PROCESS_ENDED, "");
    process->newest_ns = file->to_ns;
    process->alive_ns = file->to_ns;
    state_changed(store);
    pthread_rwlock_unlock(&store->lock);
}

void file_forget(struct store *store, const char *session)
{
    pthread_rwlock_wrlock(&store->lock);
    for (uint32_t i = 0; i < store->session_count; i++) {
        if (strcmp(store->sessions[i]->id, session) != 0)
            continue;
        state_drop(store, store->sessions[i]);
        break;
    }
    pthread_rwlock_unlock(&store->lock);
}

/* Why nothing came into the tables, or what did of another producer's file. */
static void say_foreign(struct file *file, const struct trace_reader *reader)
{
    const char *producer = file_producer(file, trace_reader_head(reader));
    struct file_result *result = file->result;

    if (!file->foreign || result->error[0] != '\0')
        return;
    (void)snprintf(
        result->error, sizeof(result->error),
        "is %s%s, not of PyTorch: its ranges are shown as ops, with the time "
        "that each took itself; steps, phases and memory are not in it",
        producer != NULL ? "a trace of " : "of a producer that is not known",
        producer != NULL ? producer : "");
}

static void say_empty(struct file *file, const struct trace_reader *reader)
{
    struct file_result *result = file->result;
    const char *producer = file_producer(file, trace_reader_head(reader));
    uint64_t strange = result->skipped[FILE_SKIP_CATEGORY];
    char category[64] = "";
    enum file_skip most = 0;

    for (int i = 0; i < FILE_SKIPS; i++)
        most = result->skipped[i] > result->skipped[most] ? (enum file_skip)i : most;
    if (file->stranger != 0)
        snprintf(category, sizeof(category), ", such as %.40s",
                 trace_names_get(file->names, file->stranger, NULL));
    if (strange > 0 && producer != NULL)
        snprintf(result->error, sizeof(result->error),
                 "is a trace of %s, not of PyTorch", producer);
    else if (strange > 0)
        snprintf(result->error, sizeof(result->error),
                 "is no trace of PyTorch: its %llu ranges have %s%s",
                 (unsigned long long)strange,
                 file->stranger != 0 ? "other categories" : "no category (`cat`)",
                 category);
    else if (result->skipped[most] > 0)
        snprintf(result->error, sizeof(result->error),
                 "no event of it could be used: %s (%llu)", file_skip_text(most),
                 (unsigned long long)result->skipped[most]);
    else
        snprintf(result->error, sizeof(result->error), "no event of a trace is in it");
}

/* Of what came later nothing is in a table. */
static bool is_full(const struct file *file)
{
    return file->result->skipped[FILE_SKIP_LIMIT] > 0 &&
           file->held_bytes >= file->max_bytes;
}

/* What came later than the limit is in no table: devices stand at a file's end, so that
 * whole tables may be missing. */
static void say_full(const struct file *file)
{
    struct file_result *result = file->result;
    uint64_t left_out = result->skipped[FILE_SKIP_LIMIT];

    if (!is_full(file) || result->error[0] != '\0')
        return;
    snprintf(
        result->error, sizeof(result->error),
        "is larger than fits in memory (%llu MiB): %llu events from byte %llu on are "
        "in no table. A piece of it fits: trainglass cut FILE --steps A-B -o "
        "PIECE.json.gz",
        (unsigned long long)(file->max_bytes >> 20), (unsigned long long)left_out,
        (unsigned long long)result->first_offset[FILE_SKIP_LIMIT]);
}

/* Events far from all others are left out of the tables, and counted. */
static void leave_strays(struct file *file)
{
    struct file_result *result = file->result;
    struct file_span span;

    file_clusters_settle(&file->clusters, &span);
    file->from_ns = span.from_ns;
    file->to_ns = span.to_ns;
    if (span.strays > 0) {
        result->skipped[FILE_SKIP_STRAY] += span.strays;
        result->first_offset[FILE_SKIP_STRAY] = span.first_offset;
        result->taken -= span.strays;
    }
    file->keep_ns[0] = file->from_ns - FILE_CLUSTER_NS;
    file->keep_ns[1] = file->to_ns + FILE_CLUSTER_NS;
    file->has_strays = span.strays > 0;
}

static int load(struct file *file, struct store *store, struct trace_reader *reader,
                const struct file_request *request, const struct file_part *part)
{
    struct process *process = NULL;
    int error = read_all(file, reader, request, part);

    if (error == 0 && part->found != NULL)
        error = file_processes_find(file, part->found);
    if (error != 0)
        return error;
    if (part->found != NULL && part->found->count > 1)
        return -EMLINK;
    if (file->result->taken == 0) {
        if (!file->result->is_cut || file->result->error[0] == '\0')
            say_empty(file, reader);
        return -ENODATA;
    }
    say_full(file);
    leave_strays(file);
    say_foreign(file, reader);
    file->ends_early = file->result->is_cut || is_full(file);
    file->result->span_ns = file->to_ns - file->from_ns;
    file_choose_trainer(file);
    error = file_enter(file, store, reader, part, &process);
    if (error == 0)
        error = arrange(file);
    if (error == 0)
        error = file_feed(file, store, process);
    if (file->details != NULL)
        file->result->remarks[FILE_REMARK_DETAILS] =
            file->details->left_out + file->details->paths.left_out;
    if (error == 0 && request->on_paths != NULL)
        request->on_paths(request->paths_user, &file->details->paths);
    if (error == 0)
        finish(file, store, reader, process);
    if (error == 0 || process == NULL)
        return error;
    /* Nothing half read is shown; ranks that were read before stay. */
    struct session *session;

    pthread_rwlock_wrlock(&store->lock);
    if (state_find(store, process->serial, &session) != NULL)
        state_drop_process(store, session, process);
    pthread_rwlock_unlock(&store->lock);
    return error;
}

int file_load_part(struct store *store, const struct file_request *request,
                   const struct file_part *part, struct file_result *result)
{
    bool tree = request->on_paths != NULL, details = request->groups != 0 || tree;
    bool links = request->link_backward || request->origins;
    struct trace_options options = request->options;

    options.shapes =
        options.shapes || (request->groups >> GROUP_SHAPE & 1) != 0 || tree;
    options.stacks = options.stacks || details;
    struct file *file = calloc(1, sizeof(*file));
    struct trace_reader *reader = trace_reader_new(&options);
    int error = -ENOMEM;

    *result = (struct file_result){.rank = -1};
    snprintf(result->session, sizeof(result->session), "%s", part->session);
    snprintf(result->name, sizeof(result->name), "%s", part->name);
    if (file != NULL && reader != NULL) {
        file->result = result;
        file->names = trace_reader_names(reader);
        file->from_ns = INT64_MAX;
        file->to_ns = INT64_MIN;
        file->works.order = TRACK_WORKS;
        file->allocations.order = TRACK_POINTS;
        file->processes = part->processes;
        file->process = part->process;
        file->foreign = part->foreign;
        file->pid = TRACE_NAMES_OTHER;
        file->groups = request->groups;
        file->max_bytes = request->max_bytes != 0 ? request->max_bytes : FILE_BYTES_MAX;
        if (details)
            file->details = file_details_new(file->names, request->stack_frames != 0
                                                              ? request->stack_frames
                                                              : FILE_STACK_FRAMES);
        file->moves_backward = request->link_backward;
        if (links && file->details != NULL)
            file->sequences = file_sequences_new();
        if ((file->details != NULL || !details) && (file->sequences != NULL || !links))
            error = load(file, store, reader, request, part);
    }
    if (error == -ENOMEM && result->error[0] == '\0')
        snprintf(result->error, sizeof(result->error), "out of memory");
    if (file != NULL)
        release(file);
    if (reader != NULL)
        trace_reader_free(reader);
    return error;
}
