#include "command/segments/segment_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/end_note.h"

#define ENTRIES_FIRST 64
#define PAGE          4096u
#define RELAXED(word) atomic_load_explicit(&(word), memory_order_relaxed)

bool segment_file_is(const char *name, const char *suffix)
{
    size_t length = strlen(name), end = strlen(suffix);

    return length > end && strcmp(name + length - end, suffix) == 0;
}

bool segment_note_is_abandoned(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool abandoned = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (fd >= 0)
        close(fd);
    return abandoned;
}

/* Foreign bytes to a text that can be printed and be part of a file name. */
static void copy_text(char *text, const char *foreign)
{
    size_t i = 0;

    for (; i + 1 < WIRE_TEXT && foreign[i] != '\0'; i++) {
        unsigned char c = (unsigned char)foreign[i];

        text[i] = c < 0x20 || c > 0x7e || c == '/' ? '?' : foreign[i];
    }
    text[i] = '\0';
}

static int open_file(int folder, const char *name, struct stat *status)
{
    int fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return -errno;
    if (fstat(fd, status) == 0 && S_ISREG(status->st_mode))
        return fd;
    close(fd);
    return -EINVAL;
}

/* <id>.end is also about <id>.2 and later trainings of the same command. */
static int open_end_note(int folder, const char *session)
{
    const char *dot = strrchr(session, '.');
    int whole = (int)strlen(session),
        first = dot == NULL ? whole : (int)(dot - session);
    int lengths[] = {whole, first}, fd = -1;

    for (int i = 0; i < 2 && fd < 0; i++) {
        char name[WIRE_TEXT + 8], id[WIRE_TEXT];
        struct stat status;

        (void)snprintf(id, sizeof(id), "%.*s", lengths[i], session);
        (void)snprintf(name, sizeof(name), "%s.end", id);
        fd = end_note_is_about(id, session) ? open_file(folder, name, &status) : -1;
    }
    return fd;
}

/* The note of `run` where no good-bye was said, read as the server's status does: _exit() runs
 * no exit handlers, nor does who is interrupted or ended by his launcher. */
static bool has_ended(int folder, const struct segment_entry *entry)
{
    char text[END_NOTE_BYTES_MAX];
    struct end_note note;
    int fd = open_end_note(folder, entry->session);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (fd >= 0)
        close(fd);
    if (got <= 0 || !end_note_parse(text, (size_t)got, &note))
        return false;
    return end_note_stopped_by(&note) != 0 ||
           (note.signal == 0 && note.exit_code == 0 && note.oom_kills == 0) ||
           (note.signal == 0 && note.pid != 0 && note.pid == entry->pid);
}

static void read_entry(int folder, const char *name, struct segment_entry *entry)
{
    struct wire_header header;
    struct stat status;
    int fd = open_file(folder, name, &status);

    memset(entry, 0, sizeof(*entry));
    snprintf(entry->file, sizeof(entry->file), "%s", name);
    if (fd < 0)
        return;
    entry->bytes = (uint64_t)status.st_size;
    /* Pairs with the probe's LOCK_EX for life: refused means alive. */
    entry->alive = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
        header.magic == WIRE_MAGIC) {
        copy_text(entry->session, header.session);
        copy_text(entry->run_name, header.run_name);
        entry->pid = header.pid;
        entry->role = header.role;
        entry->rank = wire_number(RELAXED(header.live_rank), header.rank);
        entry->steps = RELAXED(header.steps);
        entry->ended = RELAXED(header.ended) == 1 || has_ended(folder, entry);
        entry->zero_realtime_ns = header.zero_realtime_ns;
    }
    close(fd);
}

static int newest_first(const void *left, const void *right)
{
    const struct segment_entry *a = left, *b = right;
    int order;

    if (a->zero_realtime_ns != b->zero_realtime_ns)
        return a->zero_realtime_ns < b->zero_realtime_ns ? 1 : -1;
    order = strcmp(a->session, b->session);
    return order != 0 ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

int segment_list(const char *directory, struct segment_entry **entries)
{
    DIR *folder = opendir(directory);
    struct segment_entry *list = NULL, *grown;
    struct dirent *found;
    int count = 0, room = 0;

    *entries = NULL;
    if (folder == NULL)
        return -errno;
    /* All of them: who cleans must know of each that lives.
     * NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while ((found = readdir(folder)) != NULL) {
        if (!segment_file_is(found->d_name, ".seg") ||
            strlen(found->d_name) >= sizeof(list->file))
            continue;
        if (count == room) {
            room = room == 0 ? ENTRIES_FIRST : 2 * room;
            if ((grown = realloc(list, (size_t)room * sizeof(*list))) == NULL) {
                free(list);
                closedir(folder);
                return -ENOMEM;
            }
            list = grown;
        }
        read_entry(dirfd(folder), found->d_name, &list[count++]);
    }
    closedir(folder);
    if (count > 1)
        qsort(list, (size_t)count, sizeof(*list), newest_first);
    *entries = list;
    return count;
}

static int read_whole(int fd, unsigned char *bytes, size_t size)
{
    for (size_t pos = 0; pos < size;) {
        ssize_t got = pread(fd, bytes + pos, size - pos, (off_t)pos);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? -ENODATA : -errno;
        pos += (size_t)got;
    }
    return 0;
}

/* The copy took a while; what a live producer overwrote meanwhile must not be believed.
 * `reserve` is read anew into the copy, and ring_read() drops what lies before it. */
static void refresh_rings(const struct segment_file *file, int fd)
{
    const struct wire_layout *layout = &file->view.layout;

    for (uint32_t slot = 0; slot < layout->thread_count; slot++) {
        uint64_t offset = RELAXED(file->view.threads[slot].ring_offset);
        uint64_t field = offset + offsetof(struct ring_shared, reserve), reserve;

        if (offset < layout->rings_offset || offset % 128 != 0 ||
            field > layout->segment_bytes - sizeof(reserve))
            continue;
        if (pread(fd, &reserve, sizeof(reserve), (off_t)field) == sizeof(reserve))
            memcpy(file->bytes + field, &reserve, sizeof(reserve));
    }
}

int segment_file_open(struct segment_file *file, const char *directory,
                      const char *name, const char **reason)
{
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, error;
    struct stat status = {0};
    size_t size;

    *reason = "it cannot be opened";
    file->bytes = NULL;
    if (folder < 0)
        return -errno;
    fd = open_file(folder, name, &status);
    close(folder);
    if (fd < 0)
        return fd;
    size = (size_t)status.st_size;
    error = size < PAGE || size > 2 * (size_t)WIRE_BYTES_MAX ? -EPROTO : 0;
    if (error == 0)
        file->bytes = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    if (error == 0 && file->bytes == NULL)
        error = -ENOMEM;
    if (error == 0)
        error = read_whole(fd, file->bytes, size);
    if (error == 0)
        error = wire_view_open(&file->view, file->bytes, size, reason);
    if (error == 0)
        refresh_rings(file, fd);
    close(fd);
    if (error != 0)
        segment_file_close(file);
    return error;
}

void segment_file_close(struct segment_file *file)
{
    free(file->bytes);
    file->bytes = NULL;
}

static double pct_of(const _Atomic uint64_t *bits)
{
    uint64_t word = RELAXED(*bits);
    double pct;

    memcpy(&pct, &word, sizeof(pct));
    return isfinite(pct) ? pct : (double)NAN;
}

static bool read_governor(const char *folder, const char *name,
                          struct own_figure *figure)
{
    struct segment_file file;
    const char *reason;

    if (segment_file_open(&file, folder, name, &reason) != 0)
        return false;
    const struct wire_governor *sums = &file.view.header->governor;
    uint64_t sequence = RELAXED(sums->sequence);

    figure->measured_pct = pct_of(&sums->measured);
    figure->low_pct = pct_of(&sums->ci_low);
    figure->high_pct = pct_of(&sums->ci_high);
    figure->budget_pct = pct_of(&sums->budget);
    figure->steps = RELAXED(file.view.header->steps);
    segment_file_close(&file);
    /* Odd: it was killed while it wrote. */
    return sequence != 0 && sequence % 2 == 0 && !isnan(figure->measured_pct);
}

bool own_figure_read(const char *folder, const char *session, struct own_figure *figure)
{
    struct segment_entry *entries;
    int count = segment_list(folder, &entries), most = -1;
    bool known;

    for (int i = 0; i < count; i++)
        if (entries[i].steps > 0 &&
            (session == NULL || strcmp(entries[i].session, session) == 0) &&
            (most < 0 || entries[i].steps > entries[most].steps))
            most = i;
    known = most >= 0 && read_governor(folder, entries[most].file, figure);
    free(entries);
    return known;
}
