#include "command/live/contract.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/command.h"
#include "command/segments/segment_file.h"
#include "ingest/group.h"
#include "serve.h"
#include "wire/clock.h"
#include "wire/end_note.h"
#include "wire/run_note.h"
#include "wire/text.h"

#define NOTE_PATH_BYTES (PLACE_BYTES + WIRE_TEXT + 8)

static bool is_script(const char *word)
{
    return word[0] != '-' && strlen(word) > 3 &&
           (text_ends(word, ".py") || text_ends(word, ".sh"));
}

/* The script if there is one, the module after -m, else the program. */
static const char *name_of(char *const *argv)
{
    const char *name = argv[0], *slash;

    for (int i = 1; argv[i] != NULL; i++) {
        if (strcmp(argv[i], "-m") == 0 && argv[i + 1] != NULL && !is_script(name) &&
            strstr(argv[i + 1], "torch.distributed") == NULL) {
            name = argv[i + 1];
            break;
        }
        if (is_script(argv[i])) {
            name = argv[i];
            break;
        }
    }
    slash = strrchr(name, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : name;
}

/* Cut to the field's size, control characters made visible. */
static void copy_name(char *text, size_t size, const char *name)
{
    size_t i = 0;

    for (; name[i] != '\0' && i + 1 < size; i++)
        text[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    /* No half of a UTF-8 character at the cut. */
    while (name[i] != '\0' && i > 0 && ((unsigned char)name[i] & 0xc0) == 0x80)
        i--;
    text[i] = '\0';
}

/* Processes of our memory cgroup that the OOM killer ended since it was made; 0 also when
 * unknown. */
static uint32_t oom_kills(void)
{
    char text[4096];
    struct group group;

    group_open(&group, GROUP_ROOT,
               group_slurp(text, sizeof(text), "/proc/self/cgroup"));
    group_slurp(text, sizeof(text), "%s/%s", group.memory,
                group.version1 ? "memory.oom_control" : "memory.events");
    uint64_t kills = group_value(text, "oom_kill", 0);

    return kills > UINT32_MAX ? UINT32_MAX : (uint32_t)kills;
}

void contract_open(struct contract *contract, const struct options *options,
                   const char *name, char *const *argv)
{
    static const mode_t modes[] = {[SERVE_SHARE_OWNER] = 0600,
                                   [SERVE_SHARE_GROUP] = 0640,
                                   [SERVE_SHARE_ALL] = 0644};
    uint64_t id;

    memset(contract, 0, sizeof(*contract));
    contract->zero_ns = clock_ns(CLOCK_MONOTONIC);
    if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
        id = contract->zero_ns ^ (uint64_t)getpid() << 40;
    snprintf(contract->session, sizeof(contract->session), "%016" PRIx64, id);
    copy_name(contract->run_name, sizeof(contract->run_name),
              name ? name : name_of(argv));
    if (!place_directory(options, contract->directory))
        contract->directory[0] = '\0';
    contract->note_mode = modes[options_number(options, OPTION_SHARE)];
    contract->note_lock = -1;
    contract->oom_kills = oom_kills();
}

PRINTF(2, 3) static void export(const char *name, const char *format, ...)
{
    va_list arguments;
    char *value;

    va_start(arguments, format);
    int length = vasprintf(&value, format, arguments);

    va_end(arguments);
    /* One thread, before the command is started. NOLINTNEXTLINE(concurrency-mt-unsafe)
     */
    if (length < 0 || setenv(name, value, 1) != 0)
        command_complain("%s could not be set: %s", name, strerror(errno));
    if (length >= 0)
        free(value);
}

/* Such a tool injects itself into CUDA; Nsight Compute ends where somebody else is named.
 * As trainglass/__main__.py has them. */
static bool injects_itself(const char *program)
{
    static const char *const all[] = {"ncu", "nsys", "compute-sanitizer", "cuda-gdb"};
    const char *slash = strrchr(program, '/');

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(slash != NULL ? slash + 1 : program, all[i]) == 0)
            return true;
    return false;
}

static void export_library(char *const *argv)
{
    const char *python = getenv("PYTHONPATH");
    char path[PLACE_BYTES];

    if (!place_find(PLACE_LIBRARY, path)) {
        command_complain("libtrainglass.so is not beside this program; nothing is "
                         "recorded");
        return;
    }
    export("TRAINGLASS_LIBRARY", "%s", path);
    if (getenv("NVTX_INJECTION64_PATH") == NULL)
        export("NVTX_INJECTION64_PATH", "%s", path);
    if (getenv("CUDA_INJECTION64_PATH") == NULL && !injects_itself(argv[0]))
        export("CUDA_INJECTION64_PATH", "%s", path);
    if (!place_find(PLACE_PYTHON, path))
        command_complain("the Python side is not installed; Python jobs are not seen");
    else if (python == NULL || *python == '\0')
        export("PYTHONPATH", "%s", path);
    else
        export("PYTHONPATH", "%s:%s", path, python);
}

void contract_export(const struct contract *contract, const struct options *options,
                     char *const *argv)
{
    const char *windows = options_text(options, OPTION_WINDOW_DIR);
    const char *state = options_text(options, OPTION_STATE_DIR);
    char path[PLACE_BYTES];

    export("TRAINGLASS_SESSION", "%s", contract->session);
    export("TRAINGLASS_RUN_NAME", "%s", contract->run_name);
    export("TRAINGLASS_ZERO", "%" PRIu64, contract->zero_ns);
    export("TRAINGLASS_BUDGET", "%s", options_text(options, OPTION_BUDGET));
    export("TRAINGLASS_LEVEL", "%s", options_text(options, OPTION_LEVEL));
    export("TRAINGLASS_CUDA_GRAPHS", "%s", options_text(options, OPTION_CUDA_GRAPHS));
    export("TRAINGLASS_SHARE", "%s", options_text(options, OPTION_SHARE));
    /* As the server has them; absolute, for jobs change their folder. */
    if (*windows != '\0' && place_absolute(windows, path))
        export("TRAINGLASS_WINDOW_DIR", "%s", path);
    if (*state != '\0' && place_absolute(state, path))
        export("TRAINGLASS_STATE_DIR", "%s", path);
    if (contract->directory[0] != '\0')
        export("TRAINGLASS_DIR", "%s", contract->directory);
    /* Without a page of its own it may be that of a run around this one, which
     * `trainglass.url()` asks whether it watches the folder. */
    if (contract->port != 0)
        export("TRAINGLASS_URL", "http://localhost:%u%s", contract->port,
               options_text(options, OPTION_BASE_PATH));
    export_library(argv);
}

static void note_path(const struct contract *contract, const char *suffix,
                      char path[NOTE_PATH_BYTES])
{
    snprintf(path, NOTE_PATH_BYTES, "%s/%s%s", contract->directory, contract->session,
             suffix);
}

/* Writes a note next to the segments; it has its lock before it has its name. Returns the
 * descriptor that holds the lock, -1 none. */
static int write_note(const struct contract *contract, const char *suffix,
                      const char *text, size_t length)
{
    char path[NOTE_PATH_BYTES], made[NOTE_PATH_BYTES + 8];

    note_path(contract, suffix, path);
    snprintf(made, sizeof(made), "%s.new", path);
    int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fchmod(fd, contract->note_mode) == 0 &&
        write(fd, text, length) == (ssize_t)length && rename(made, path) == 0)
        return fd;
    unlink(made);
    close(fd);
    return -1;
}

/* A run that was killed could not remove its own note, nor finish what it was making. */
static void remove_stale_notes(const char *directory)
{
    DIR *folder = opendir(directory);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if ((segment_file_is(entry->d_name, ".run") ||
             segment_file_is(entry->d_name, ".run.new")) &&
            segment_note_is_abandoned(dirfd(folder), entry->d_name))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL)
        closedir(folder);
}

void contract_announce(struct contract *contract, char *const *argv, pid_t pid)
{
    struct run_note note = {.pid = (uint32_t)pid,
                            .realtime_ns = clock_ns(CLOCK_REALTIME)};
    char text[RUN_NOTE_BYTES_MAX];

    if (contract->directory[0] == '\0')
        return;
    run_note_command(&note, argv);
    remove_stale_notes(contract->directory);
    contract->note_lock =
        write_note(contract, ".run", text, run_note_format(&note, text, sizeof(text)));
}

/* Did any process of the session record? A note without segments would lie around. */
static bool was_recorded(const struct contract *contract)
{
    struct segment_entry *entries;
    int count = segment_list(contract->directory, &entries);
    bool found = false;

    for (int i = 0; i < count && !found; i++)
        found = text_starts(entries[i].session, contract->session);
    free(entries);
    return found;
}

bool contract_close(const struct contract *contract, pid_t pid,
                    const struct child_end *end)
{
    char path[NOTE_PATH_BYTES], text[END_NOTE_BYTES_MAX];
    uint32_t kills = oom_kills();
    struct end_note note = {
        .exit_code = (uint32_t)end->code,
        .signal = (uint32_t)end->signal,
        .oom_kills = kills > contract->oom_kills ? kills - contract->oom_kills : 0,
        .monotonic_ns = clock_ns(CLOCK_MONOTONIC),
        .realtime_ns = clock_ns(CLOCK_REALTIME),
        .pid = pid > 0 ? (uint32_t)pid : 0,
        .asked_signal = (uint32_t)end->asked,
    };

    if (contract->note_lock >= 0) {
        note_path(contract, ".run", path);
        unlink(path);
        close(contract->note_lock);
    }
    if (contract->directory[0] == '\0' || !was_recorded(contract))
        return false;
    int fd =
        write_note(contract, ".end", text, end_note_format(&note, text, sizeof(text)));

    if (fd >= 0)
        close(fd);
    return true;
}
