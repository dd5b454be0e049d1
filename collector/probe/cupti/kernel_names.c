#include "probe/cupti/kernel_names.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "probe/probe.h"
#include "wire/hash.h"

#define PLACES 1024u
#define KNOWN  2048u
#define PAGE   4096u

/* A demangler's stack and time grow with the name. Those of later libraries refuse longer
 * ones by themselves. */
#define MANGLED_MAX 1024u

struct place {
    uint64_t address;
    uint32_t buffer; /* number of the one that it was read in */
    uint32_t id;
};
static struct place places[PLACES];
static uint32_t buffer_number;

/* By its content, as CUPTI has it. */
struct known {
    uint64_t hash; /* 0: empty */
    uint32_t id;
};
static struct known known[KNOWN];
static uint64_t bytes_new; /* of names that were new, about */
static uint32_t names_new, newest_id, other_id;

void kernel_names_buffer_begins(void)
{
    buffer_number++;
}

/* ---- reading ----------------------------------------------------------------------- */

/* A job may close all descriptors that it does not know, and what it opens then has their
 * numbers. */
static bool is_pair(const int ends[2], const struct stat made[2])
{
    struct stat now[2];

    for (int i = 0; i < 2; i++)
        if (!S_ISSOCK(made[i].st_mode) || fstat(ends[i], &now[i]) != 0 ||
            now[i].st_dev != made[i].st_dev || now[i].st_ino != made[i].st_ino)
            return false;
    return true;
}

/* -1 where the job has no descriptor left, 0 where it has taken one of these meanwhile. An
 * end that it has replaced is the job's: nobody closes it. */
static int take_pair(int ends[2], struct stat made[2])
{
    if (is_pair(ends, made))
        return 1;
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return -1;
    return fstat(ends[0], &made[0]) == 0 && fstat(ends[1], &made[1]) == 0 &&
           is_pair(ends, made);
}

/* While a job opens files under all numbers that it has closed, a new pair has the next of
 * them: that is over in less. */
#define PAIR_TRIES 100u

/* The number is another's by now: a file's, a socket's that nobody else holds, or none. */
static bool was_taken(int error)
{
    return error == ENOTSOCK || error == EBADF || error == ENOTCONN ||
           error == EDESTADDRREQ || error == ECONNREFUSED || error == EAGAIN;
}

/* Where reading by address is forbidden (a seccomp filter, gVisor) the kernel still looks
 * before it reads what it is to send: a wrong address is EFAULT, not the job's end. By
 * sockets, for the job may take a number between two lines of this: then nothing is written
 * into its file, nothing is read from it, and no signal comes of it. (Only a connected
 * socket of its own would get the bytes.) */
static long read_through_pair(void *to, uint64_t address, size_t bytes)
{
    static int ends[2] = {-1, -1};
    static struct stat made[2];
    int taken;

    for (uint32_t i = 0; i < PAIR_TRIES && (taken = take_pair(ends, made)) >= 0; i++) {
        /* The bare call: a checker of addresses would look where we dare not. */
        long given = taken ? syscall(SYS_sendto, (long)ends[1], address, bytes,
                                     (long)MSG_NOSIGNAL, 0L, 0L)
                           : 0;

        if (given < 0 && !was_taken(errno))
            return -1;
        if (given > 0 && recv(ends[0], to, bytes, 0) == given)
            return given;
        sched_yield();
    }
    return -1;
}

static long read_memory(void *to, uint64_t address, size_t bytes)
{
    static bool forbidden;
    struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};

    if (!forbidden) {
        long got = syscall(SYS_process_vm_readv, (long)getpid(), &local, 1UL, &remote,
                           1UL, 0UL);

        forbidden = got < 0 && (errno == ENOSYS || errno == EPERM);
        if (!forbidden)
            return got;
    }
    return read_through_pair(to, address, bytes);
}

/* Copies a text that may not be there, page by page; its length. */
static size_t read_text(uint64_t address, char *text, size_t bytes)
{
    size_t length = 0;

    while (length < bytes) {
        size_t part = PAGE - (size_t)((address + length) % PAGE);

        part = part < bytes - length ? part : bytes - length;
        long got = read_memory(text + length, address + length, part);

        if (got <= 0)
            return length;
        const char *end = memchr(text + length, '\0', (size_t)got);

        if (end != NULL)
            return (size_t)(end - text);
        length += (size_t)got;
    }
    return length;
}

/* ---- demangling -------------------------------------------------------------------- */

typedef char *demangler(const char *mangled, char *buffer, size_t *size, int *status);

/* Of the C++ library that is there; NULL without one. Torch has it, and so has who
 * launches kernels of C++. */
static demangler *find_demangler(void)
{
    static demangler *found;
    void *library =
        found == NULL ? dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY) : NULL;

    if (library != NULL)
        *(void **)&found = dlsym(library, "__cxa_demangle");
    return found;
}

/* As torch.profiler writes it: to be freed; NULL where it stays as it is. */
static char *demangle(const char *text, size_t length)
{
    bool mangled =
        length > 2 && length <= MANGLED_MAX && text[0] == '_' && text[1] == 'Z';
    demangler *with = mangled ? find_demangler() : NULL;
    int status = 0;

    return with == NULL ? NULL : with(text, NULL, NULL, &status);
}

/* ---- ids --------------------------------------------------------------------------- */

static bool is_full(void)
{
    return bytes_new > probe->layout.name_bytes / 2 ||
           names_new > probe->layout.name_count / 2;
}

/* A name that is there keeps its id when our half of the table is full. */
static uint32_t intern_in_full(const char *text, size_t length)
{
    uint32_t id = names_find(&probe->names, text, length);

    if (id == 0 && other_id == 0)
        other_id = probe_name("(other kernels)");
    return id != 0 ? id : other_id;
}

static uint32_t intern(const char *text, size_t length)
{
    if (is_full())
        return intern_in_full(text, length);
    uint32_t id = probe_name_bytes(text, length);

    /* Ids grow: a new one is above all that we have had. */
    if (id > newest_id) {
        newest_id = id;
        names_new++;
        bytes_new += length;
    }
    return id;
}

/* `text` ends with a NUL behind its length. */
static uint32_t id_of(const char *text, size_t length)
{
    uint64_t h = hash_bytes(HASH_BEGIN, text, length) | 1; /* never 0 */
    struct known *slot = &known[(h >> 1) % KNOWN];

    if (slot->hash == h)
        return slot->id;
    char *plain = demangle(text, length);

    *slot = (struct known){h, plain == NULL ? intern(text, length)
                                            : intern(plain, strlen(plain))};
    free(plain);
    return slot->id;
}

uint32_t kernel_names_id(uint64_t address)
{
    struct place *place = &places[(address ^ address >> 7 ^ address >> 17) % PLACES];
    char text[NAME_BYTES_MAX + 1];

    if (address == 0)
        return 0;
    if (place->address == address && place->buffer == buffer_number)
        return place->id;
    size_t length = read_text(address, text, NAME_BYTES_MAX);

    text[length] = '\0';
    *place =
        (struct place){address, buffer_number, length > 0 ? id_of(text, length) : 0};
    return place->id;
}
