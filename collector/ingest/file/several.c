/* What one file holds: a trace, the traces of an archive, or several processes that train. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ingest/file/parts.h"
#include "ingest/trace/archive/stream.h"
#include "ingest/trace/grow.h"
#include "wire/text.h"

const char *file_rank_text(enum file_rank_from from)
{
    switch (from) {
    case FILE_RANK_NAME:
        return "the trace does not say its rank: it is that of the file's name";
    case FILE_RANK_PROCESS:
        return "the file holds several processes with steps of their own: each is "
               "shown as a rank, in the order of their process ids where nothing else "
               "names them";
    default:
        return NULL;
    }
}

static const char *name_of(const struct file_request *request)
{
    return request->name != NULL ? request->name : request->path;
}

/* A result that waits for those of members whose names come first. */
struct waiting {
    uint32_t member, turn;
    int error;
    struct file_result result;
};

struct loading {
    struct store *store;
    const struct file_request *request;
    file_on_part *on_part;
    void *user;
    int error; /* the first; 0 once something could be read */
    bool any;
    bool cancelled;
    uint64_t text_bytes; /* that came out of an archive so far, each member once */
    bool waits;          /* results are given when all members were read */
    uint32_t member;     /* that is being read */
    struct file_list waiting;
};

/* Formats that only their names tell. */
static const char *known_by_name(const char *name)
{
    static const struct {
        const char *end, *sentence;
    } formats[] = {
        {".nsys-rep",
         "is a report of Nsight Systems: record with torch.profiler for here"},
        {".qdrep",
         "is a report of Nsight Systems: record with torch.profiler for here"},
        {".ncu-rep",
         "is a report of Nsight Compute: record with torch.profiler for here"},
        {".xplane.pb",
         "is an XSpace of XProf (JAX, TensorFlow): the trace.json.gz beside "
         "it can be read"},
        {".prof", "is a profile of cProfile: snakeviz and pstats show those"},
        {".pftrace", "is a trace of Perfetto: its traceconv json makes one that can be "
                     "read"},
        {".perfetto-trace", "is a trace of Perfetto: its traceconv json makes one that "
                            "can be read"},
        {".pickle", "is a pickle, as memory snapshots of torch are: memory_viz shows "
                    "those"},
    };

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (text_ends(name, formats[i].end))
            return formats[i].sentence;
    return NULL;
}

static int by_member(const void *left, const void *right)
{
    const struct waiting *a = left, *b = right;

    if (a->member != b->member)
        return a->member < b->member ? -1 : 1;
    return a->turn < b->turn ? -1 : a->turn > b->turn;
}

static void deliver(struct loading *loading, const struct file_result *result,
                    int error)
{
    if (error == 0 || (!loading->any && loading->error == 0))
        loading->error = error;
    loading->any = loading->any || error == 0;
    loading->on_part(loading->user, result, error);
}

static void give(struct loading *loading, const struct file_result *given, int error)
{
    const char *format = error == -EBADMSG ? known_by_name(given->name) : NULL;
    struct file_list *waiting = &loading->waiting;
    struct file_result named = *given;

    if (format != NULL)
        (void)snprintf(named.error, sizeof(named.error), "%s", format);
    if (named.session[0] == '\0') /* an archive that was refused as a whole */
        file_name_session(&named, named.name);
    loading->cancelled = loading->cancelled || error == -ECANCELED;
    if (!loading->waits ||
        !grow_array(&waiting->items, waiting->count, &waiting->capacity, 16,
                    sizeof(struct waiting))) {
        deliver(loading, &named, error);
        return;
    }
    ((struct waiting *)waiting->items)[waiting->count] =
        (struct waiting){loading->member, waiting->count, error, named};
    waiting->count++;
}

/* Who asks for a tree of calls gets one, or none. */
static bool refuse_several(struct loading *loading, const struct file_part *part,
                           uint32_t count)
{
    struct file_result result = {.rank = -1};

    if (loading->request->on_paths == NULL || count < 2)
        return false;
    (void)snprintf(result.name, sizeof(result.name), "%s", part->name);
    (void)snprintf(result.error, sizeof(result.error),
                   "holds %u traces: the calls of several processes are no one "
                   "program's, so that stacks are of a file with one",
                   count);
    give(loading, &result, -E2BIG);
    return true;
}

/* By the processes' names where each has a number of its own, else in their order. */
static void rank_processes(const struct file_processes *processes, int32_t *ranks)
{
    bool named = true;

    for (uint32_t i = 0; i < processes->count; i++) {
        ranks[i] = file_rank_of_name(processes->pids[i]);
        named = named && ranks[i] >= 0;
        for (uint32_t j = 0; j < i; j++)
            named = named && ranks[i] != ranks[j];
    }
    for (uint32_t i = 0; i < processes->count && !named; i++)
        ranks[i] = (int32_t)i;
}

static void add_note(struct file_result *result, const char *note)
{
    if (result->error[0] == '\0')
        (void)snprintf(result->error, sizeof(result->error), "%s", note);
}

static void load_processes(struct loading *loading, const struct file_part *whole,
                           const struct file_processes *processes, const char *note)
{
    int32_t ranks[FILE_PROCESSES_MAX];
    struct file_result result;
    char name[sizeof(result.name)];

    if (refuse_several(loading, whole, processes->count))
        return;
    rank_processes(processes, ranks);
    for (uint32_t i = 0; i < processes->count && !loading->cancelled; i++) {
        struct file_part part = *whole;

        (void)snprintf(name, sizeof(name), "%s (process %s)", whole->name,
                       processes->pids[i]);
        part.name = name;
        part.processes = processes;
        part.process = i;
        part.found = NULL;
        part.rank = ranks[i];
        part.rank_from = FILE_RANK_PROCESS;
        int error = file_load_part(loading->store, loading->request, &part, &result);

        add_note(&result, note);
        give(loading, &result, error);
    }
}

static void load_trace(struct loading *loading, struct file_part *part,
                       const char *note)
{
    const char *path = loading->request->path;
    struct file_processes processes = {0};
    struct file_result result;
    struct stat status;

    /* What can be read once only is one process. */
    if (part->archive != NULL ||
        (strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode)))
        part->found = &processes;
    part->rank_from = FILE_RANK_NAME;
    int error = file_load_part(loading->store, loading->request, part, &result);

    loading->text_bytes += result.text_bytes;
    /* Nothing of PyTorch in it: what another producer recorded is shown as it is. */
    if (error == -ENODATA && part->found != NULL &&
        result.skipped[FILE_SKIP_CATEGORY] > 0) {
        part->foreign = true;
        error = file_load_part(loading->store, loading->request, part, &result);
    }
    add_note(&result, note);
    if (error == -EMLINK)
        load_processes(loading, part, &processes, note);
    else
        give(loading, &result, error);
    file_processes_free(&processes);
}

/* The traces of one folder of an archive are the ranks of one session. */
static void load_member(struct loading *loading, struct archive *archive,
                        uint32_t member, int32_t rank)
{
    const char *own = archive_name(archive, member), *slash = strrchr(own, '/');
    const char *asked = loading->request->session, *path = name_of(loading->request);
    struct file_result named;
    char name[sizeof(named.name)];

    (void)snprintf(name, sizeof(name), "%s/%.*s", path,
                   slash == NULL ? 0 : (int)(slash - own), own);
    file_name_session(&named, name);
    if (asked != NULL)
        (void)snprintf(named.session, sizeof(named.session), "%s", asked);
    (void)snprintf(name, sizeof(name), "%s/%s", path, own);
    struct file_part part = {.name = name,
                             .session = named.session,
                             .archive = archive,
                             .member = member,
                             .rank = rank,
                             .twins_apart = loading->request->twins_apart};

    load_trace(loading, &part, archive_note(archive));
}

/* Each member alone may be no bomb, and all of them together one. */
static bool refuse_bomb(struct loading *loading, const struct archive *archive)
{
    struct file_result result = {.rank = -1};

    if (!inflater_is_bomb(loading->text_bytes, archive_file_bytes(archive)))
        return false;
    (void)snprintf(result.name, sizeof(result.name), "%s/%s", name_of(loading->request),
                   archive_name(archive, loading->member));
    (void)snprintf(result.error, sizeof(result.error),
                   "was not read, nor was what comes after it: the archive inflates to "
                   "more than %u times its size",
                   INFLATER_RATIO_MAX);
    give(loading, &result, -EFBIG);
    return true;
}

static void load_archive(struct loading *loading, struct archive *archive)
{
    uint32_t count = archive_count(archive);
    const char **names = calloc(count, sizeof(*names));
    int32_t *ranks = calloc(count, sizeof(*ranks));
    uint32_t *order = calloc(count, sizeof(*order));

    if (names != NULL && ranks != NULL && order != NULL) {
        for (uint32_t i = 0; i < count; i++)
            names[i] = archive_name(archive, i);
        file_ranks_of_names(names, count, ranks);
        archive_order(archive, order);
        loading->waits = true;
        for (uint32_t i = 0; i < count && !loading->cancelled; i++) {
            loading->member = order[i];
            if (refuse_bomb(loading, archive))
                break;
            load_member(loading, archive, order[i], ranks[order[i]]);
        }
        struct waiting *items = loading->waiting.items;

        file_list_sort(&loading->waiting, sizeof(*items), by_member);
        for (uint32_t i = 0; i < loading->waiting.count; i++)
            deliver(loading, &items[i].result, items[i].error);
        free(items);
    } else {
        give(loading, &(struct file_result){.rank = -1, .error = "out of memory"},
             -ENOMEM);
    }
    free(names);
    free(ranks);
    free(order);
}

static void load_file(struct loading *loading)
{
    const struct file_request *request = loading->request;
    const char *name = name_of(request);
    struct file_result session;
    struct file_part part = {.name = name,
                             .rank = request->rank > 0 ? request->rank - 1
                                                       : file_rank_of_name(name),
                             .twins_apart = request->twins_apart};

    file_name_session(&session, request->path);
    part.session = request->session != NULL ? request->session : session.session;
    load_trace(loading, &part, "");
}

int file_load_each(struct store *store, const struct file_request *request,
                   file_on_part *on_part, void *user)
{
    struct loading loading = {
        .store = store, .request = request, .on_part = on_part, .user = user};
    const char *name = name_of(request);
    struct file_result refused = {.rank = -1};
    struct archive *archive = NULL;
    struct file_part whole = {.name = name};
    const struct stream_stop stop = {request->is_cancelled, request->user};
    int error = strcmp(request->path, "-") == 0
                    ? 0
                    : archive_open(&archive, request->path, &stop, refused.error);

    if (error != 0) {
        (void)snprintf(refused.name, sizeof(refused.name), "%s", name);
        give(&loading, &refused, error);
    } else if (archive == NULL) {
        load_file(&loading);
    } else if (!refuse_several(&loading, &whole, archive_count(archive))) {
        load_archive(&loading, archive);
    }
    archive_close(archive);
    return loading.error;
}

struct first {
    struct file_result *result;
    bool any, read;
};

static void keep_first(void *user, const struct file_result *result, int error)
{
    struct first *first = user;

    if (first->read || (first->any && error != 0))
        return;
    *first->result = *result;
    first->any = true;
    first->read = error == 0;
}

int file_load(struct store *store, const struct file_request *request,
              struct file_result *result)
{
    struct first first = {.result = result};

    return file_load_each(store, request, keep_first, &first);
}
