#include "probe/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "wire/clock.h"
#include "wire/hash.h"

static const char *environment(const char *name)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

/* `fallback` for anything but a whole number of int32_t. */
static int32_t number(const char *text, int32_t fallback)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < INT32_MIN || value > INT32_MAX)
        return fallback;
    return (int32_t)value;
}

/* The first of several launchers' names for the same thing. */
static int32_t first_number(const char *const names[], int32_t fallback)
{
    for (; *names != NULL; names++) {
        int32_t value = number(environment(*names), -1);

        if (value >= 0)
            return value;
    }
    return fallback;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    hash = hash_bytes(hash, bytes, size);
    return hash ^ hash >> 32;
}

static ssize_t read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

uint64_t identity_start_ticks(uint32_t pid)
{
    char path[32], text[1024];

    (void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (read_file(path, text, sizeof(text)) <= 0)
        return 0;
    /* The command's name may hold spaces and brackets: count from its end. */
    char *field = strrchr(text, ')');

    for (int i = 2; field != NULL && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoull(field + 1, NULL, 10) : 0;
}

void identity_clean(char *id, size_t size, const char *text)
{
    size_t length = 0;

    for (; text[length] != '\0' && length < size - 1; length++) {
        char c = text[length];
        int fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';

        if (!fine)
            c = '-';
        id[length] = c;
    }
    id[length] = '\0';
}

/* Of whoever started the job: torchrun's agent is the parent of its ranks, and its run
 * id alone is the constant "none". */
static void session_id(struct identity *identity)
{
    const char *given = environment("TRAINGLASS_SESSION");
    const char *run = environment("TORCHELASTIC_RUN_ID");
    bool launched = run[0] != '\0';
    uint32_t pid = launched ? identity->parent_pid : identity->pid;
    uint64_t start = launched ? identity_start_ticks(pid) : identity->start_ticks;
    uint64_t hash = 0xcbf29ce484222325u;

    if (given[0] != '\0') {
        identity_clean(identity->session, sizeof(identity->session) - 8, given);
        return;
    }
    hash = mix(hash, &identity->boot_hash, sizeof(identity->boot_hash));
    hash = mix(hash, &identity->pid_namespace, sizeof(identity->pid_namespace));
    hash = mix(hash, &pid, sizeof(pid));
    hash = mix(hash, &start, sizeof(start));
    hash = mix(hash, run, strlen(run));
    hash = mix(hash, &identity->restart_count, sizeof(identity->restart_count));
    (void)snprintf(identity->session, sizeof(identity->session), "s-%016llx",
                   (unsigned long long)hash);
}

static bool is_script(const char *word)
{
    size_t length = strlen(word);

    return length > 3 && word[0] != '-' && strcmp(word + length - 3, ".py") == 0;
}

/* Of the command line, whose words end with a NUL each: the script, the module after -m, else
 * the program. */
static const char *program_name(const char *words, size_t size)
{
    const char *name = words, *slash;

    for (const char *word = words; word < words + size; word += strlen(word) + 1) {
        const char *next = word + strlen(word) + 1;
        bool module = strcmp(word, "-m") == 0 && next < words + size;

        if (module || is_script(word)) {
            name = module ? next : word;
            break;
        }
    }
    slash = strrchr(name, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : name;
}

/* As `run` names it; without one the program and when it began, for many are called alike. In
 * UTC: localtime_r() takes a lock, which a fork may have left taken. */
static void run_name(struct identity *identity)
{
    const char *given = environment("TRAINGLASS_RUN_NAME");
    unsigned seconds = (unsigned)(clock_ns(CLOCK_REALTIME) / 1000000000u % 86400u);
    char words[1024];
    ssize_t got;

    if (given[0] != '\0') {
        (void)snprintf(identity->run_name, sizeof(identity->run_name), "%s", given);
        return;
    }
    got = read_file("/proc/self/cmdline", words, sizeof(words));
    if (got > 0)
        (void)snprintf(identity->run_name, sizeof(identity->run_name),
                       "%.40s %02u:%02u:%02u UTC", program_name(words, (size_t)got),
                       seconds / 3600, seconds / 60 % 60, seconds % 60);
}

void identity_number(struct identity *identity, const char *session)
{
    const char *dot = strrchr(session, '.');
    char name[sizeof(identity->run_name)];

    if (dot == NULL || strcmp(session, identity->session) == 0)
        return;
    (void)snprintf(name, sizeof(name), "%.50s (%.10s)", identity->run_name, dot + 1);
    memcpy(identity->run_name, name, sizeof(name));
}

/* Time zero: TRAINGLASS_ZERO (CLOCK_MONOTONIC ns, set by `run`), else now. */
static void time_zero(struct identity *identity)
{
    uint64_t monotonic = clock_ns(CLOCK_MONOTONIC), realtime = clock_ns(CLOCK_REALTIME);
    uint64_t zero = strtoull(environment("TRAINGLASS_ZERO"), NULL, 10);

    if (zero == 0 || zero > monotonic)
        zero = monotonic;
    identity->zero_monotonic_ns = zero;
    identity->zero_realtime_ns = realtime - (monotonic - zero);
}

static uint32_t decide_role(void)
{
    const char *asked = environment("TRAINGLASS_ROLE");

    if (strcmp(asked, "launcher") == 0)
        return WIRE_ROLE_LAUNCHER;
    if (strcmp(asked, "worker") == 0)
        return WIRE_ROLE_WORKER;
    return WIRE_ROLE_TRAINER;
}

void identity_read(struct identity *identity, uint32_t role)
{
    static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "SLURM_PROCID", NULL};
    static const char *const locals[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                         "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
    static const char *const sizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                        "PMI_SIZE", "SLURM_NTASKS", NULL};
    static const char *const local_sizes[] = {
        "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    struct utsname system;
    struct stat status;
    char boot[64];

    *identity = (struct identity){
        .pid = (uint32_t)getpid(),
        .parent_pid = (uint32_t)getppid(),
        .uid = geteuid(),
        .rank = first_number(ranks, -1),
        .local_rank = first_number(locals, -1),
        .world_size = first_number(sizes, -1),
        .restart_count = (uint32_t)first_number(
            (const char *const[]){"TORCHELASTIC_RESTART_COUNT", NULL}, 0),
    };
    if (read_file("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) > 0)
        identity->boot_hash = mix(HASH_BEGIN, boot, strcspn(boot, "\n"));
    if (stat("/proc/self/ns/pid", &status) == 0)
        identity->pid_namespace = status.st_ino;
    identity->local_world_size = first_number(local_sizes, identity->world_size);
    identity->start_ticks = identity_start_ticks(identity->pid);
    if (uname(&system) == 0)
        identity_clean(identity->host, sizeof(identity->host), system.nodename);
    run_name(identity);
    identity->role = role != 0 ? role : decide_role();
    session_id(identity);
    time_zero(identity);
}
