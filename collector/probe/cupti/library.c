#include "probe/cupti/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CUPTI_OLDEST 11
#define CUPTI_NEWEST 14 /* one ahead of what there is */

#define CUDA_SUCCESS         0
#define CUDA_NOT_INITIALIZED 3

/* A library that is mapped, by its name; NULL: it is not. Never dl_iterate_phdr(): its
 * lock is not renewed in a forked child, and our thread may hold it just then. */
static void *mapped(const char *name, char *path, size_t bytes)
{
    void *handle = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
    struct link_map *map = NULL;

    if (handle != NULL && path != NULL && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        (void)snprintf(path, bytes, "%s", map->l_name);
    return handle;
}

/* ---- the driver -------------------------------------------------------------------- */

static void *driver(void)
{
    return mapped("libcuda.so.1", NULL, 0);
}

/* Found once: it is asked every few ms while cuInit runs. Relaxed: whoever finds it finds
 * the same. */
static int (*_Atomic count_devices)(int *);

enum cupti_driver cupti_driver_state(void)
{
    int (*count)(int *) = atomic_load_explicit(&count_devices, memory_order_relaxed);
    void *handle = count == NULL ? driver() : NULL;
    int devices = 0;

    if (handle != NULL) {
        *(void **)&count = dlsym(handle, "cuDeviceGetCount");
        atomic_store_explicit(&count_devices, count, memory_order_relaxed);
    }
    if (count == NULL)
        return CUPTI_DRIVER_ABSENT;
    int error = count(&devices);

    if (error == CUDA_NOT_INITIALIZED)
        return CUPTI_DRIVER_ASLEEP;
    return error == CUDA_SUCCESS && devices > 0 ? CUPTI_DRIVER_READY
                                                : CUPTI_DRIVER_NO_GPU;
}

bool cupti_driver_places(char *text, size_t bytes)
{
    void *handle = driver();
    int (*count)(int *) = atomic_load_explicit(&count_devices, memory_order_relaxed);
    int (*get)(int *device, int ordinal) = NULL;
    int (*get_place)(char *place, int bytes, int device) = NULL;
    int devices = 0, device;
    size_t used = 0;

    text[0] = '\0';
    if (handle == NULL || count == NULL || count(&devices) != CUDA_SUCCESS)
        return false;
    *(void **)&get = dlsym(handle, "cuDeviceGet");
    *(void **)&get_place = dlsym(handle, "cuDeviceGetPCIBusId");
    for (int i = 0; get != NULL && get_place != NULL && i < devices; i++) {
        char place[32] = "";

        if (get(&device, i) != CUDA_SUCCESS ||
            get_place(place, sizeof(place), device) != CUDA_SUCCESS)
            break;
        size_t length = strnlen(place, sizeof(place));

        if (length + 2 > bytes - used)
            break;
        if (used > 0)
            text[used++] = ' ';
        memcpy(text + used, place, length);
        used += length;
        text[used] = '\0';
    }
    return used > 0;
}

/* Of one device; false when it does not tell. */
static bool describe_multiprocessor(int (*get_attribute)(int *, int, int), int device,
                                    char *text, size_t bytes)
{
    /* CUdevice_attribute: how many; then of each one threads, registers, shared memory,
     * blocks; and what the system takes of each block's shared memory. */
    static const int attributes[6] = {16, 39, 82, 81, 106, 111};
    int values[6] = {0};

    for (int i = 0; i < 6; i++)
        if (get_attribute(&values[i], attributes[i], device) != CUDA_SUCCESS)
            values[i] = 0; /* an older driver lacks the last two */
    (void)snprintf(text, bytes, "%d %d %d %d %d %d", values[0], values[1], values[2],
                   values[3], values[4] > 0 ? values[4] : 16, values[5]);
    return values[0] > 0 && values[1] > 0;
}

bool cupti_driver_multiprocessors(char *text, size_t bytes)
{
    void *handle = driver();
    int (*count)(int *) = atomic_load_explicit(&count_devices, memory_order_relaxed);
    int (*get)(int *device, int ordinal) = NULL;
    int (*get_attribute)(int *value, int attribute, int device) = NULL;
    int devices = 0, device = 0;
    size_t used = 0, first = 0;
    bool alike = true;

    text[0] = '\0';
    if (handle == NULL || count == NULL || count(&devices) != CUDA_SUCCESS)
        return false;
    *(void **)&get = dlsym(handle, "cuDeviceGet");
    *(void **)&get_attribute = dlsym(handle, "cuDeviceGetAttribute");
    for (int i = 0; get != NULL && get_attribute != NULL && i < devices; i++) {
        char one[80];

        if (get(&device, i) != CUDA_SUCCESS ||
            !describe_multiprocessor(get_attribute, device, one, sizeof(one)))
            break;
        size_t length = strnlen(one, sizeof(one));

        if (length + 3 > bytes - used)
            break;
        first = i == 0 ? length : first;
        alike =
            alike && length == first && memcmp(text, one, used > 0 ? first : 0) == 0;
        (void)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", one);
        used += length + (used > 0 ? 2 : 0);
    }
    if (alike)
        text[first] = '\0';
    return used > 0;
}

/* The newest CUDA that the driver can serve: 12, 13; 0 unknown. */
static int driver_major(void)
{
    void *handle = driver();
    int (*get_version)(int *) = NULL;
    int version = 0;

    if (handle != NULL)
        *(void **)&get_version = dlsym(handle, "cuDriverGetVersion");
    return get_version != NULL && get_version(&version) == CUDA_SUCCESS ? version / 1000
                                                                        : 0;
}

/* ---- libcupti ---------------------------------------------------------------------- */

/* "libcupti.so.13"; 11's carries its minor version. */
static void file_name(int major, char *name, size_t bytes)
{
    if (major == 11)
        (void)snprintf(name, bytes, "libcupti.so.11.8");
    else
        (void)snprintf(name, bytes, "libcupti.so.%d", major);
}

/* The CUDA runtime that is mapped, and its folder with the slash. */
static int runtime_major(char *folder, size_t bytes)
{
    static const struct {
        const char *name;
        int major;
    } rows[] = {
        {"libcudart.so.13", 13}, {"libcudart.so.12", 12}, {"libcudart.so.11.0", 11}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *slash = NULL;

        folder[0] = '\0';
        if (mapped(rows[i].name, folder, bytes) == NULL)
            continue;
        slash = strrchr(folder, '/');
        if (slash != NULL)
            slash[1] = '\0';
        return rows[i].major;
    }
    return 0;
}

/* Where packages and the toolkit put it, seen from the folder of the CUDA runtime. */
static void *open_beside_runtime(const char *runtime, int major, char *path,
                                 size_t bytes)
{
    static const char *const folders[] = {"", "../../cuda_cupti/lib/",
                                          "../extras/CUPTI/lib64/",
                                          "../../../extras/CUPTI/lib64/"};
    char file[32];

    file_name(major, file, sizeof(file));
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        int length = snprintf(path, bytes, "%s%s%s", runtime, folders[i], file);
        void *handle =
            length > 0 && (size_t)length < bytes ? dlopen(path, RTLD_LAZY) : NULL;

        if (handle != NULL)
            return handle;
    }
    return NULL;
}

/* The one that torch's Kineto calls: whatever else is mapped, with it we must share. */
static void *open_of_torch(char *path, size_t bytes)
{
    static const char *const names[] = {"libtorch_cpu.so", "libtorch_cuda.so"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *torch = mapped(names[i], NULL, 0);
        void *symbol = torch != NULL ? dlsym(torch, "cuptiActivityEnable") : NULL;
        Dl_info info;

        if (symbol != NULL && dladdr(symbol, &info) != 0 && info.dli_fname != NULL)
            return mapped(info.dli_fname, path, bytes);
    }
    return NULL;
}

/* Of those that are mapped: the CUDA runtime's version, else the newest. */
static void *open_mapped(int major, char *path, size_t bytes, unsigned *count)
{
    char file[32];
    int best = 0;

    *count = 0;
    for (int next = CUPTI_OLDEST; next <= CUPTI_NEWEST; next++) {
        file_name(next, file, sizeof(file));
        if (mapped(file, NULL, 0) == NULL)
            continue;
        ++*count;
        best = best == major && best != 0 ? best : next;
    }
    file_name(best, file, sizeof(file));
    return best != 0 ? mapped(file, path, bytes) : NULL;
}

static void *open_any(char *path, size_t bytes, unsigned *count)
{
    char runtime[512];
    int major = runtime_major(runtime, sizeof(runtime));
    void *known = open_mapped(major, path, bytes, count);
    void *handle = open_of_torch(path, bytes);

    if (handle == NULL)
        handle = known;
    if (handle == NULL && major != 0)
        handle = open_beside_runtime(runtime, major, path, bytes);
    if (handle != NULL)
        return handle;
    /* A CUPTI that is newer than its driver does not work; an older one does. */
    for (int next = major != 0 ? major : driver_major(); next >= CUPTI_OLDEST; next--) {
        file_name(next, path, bytes);
        handle = dlopen(path, RTLD_LAZY);
        if (handle != NULL || major != 0)
            return handle;
    }
    return NULL;
}

int cupti_library_open(struct cupti_library *library, const char **reason)
{
    memset(library, 0, sizeof(*library));
    void *handle = open_any(library->path, sizeof(library->path), &library->copies);
    const struct {
        const char *symbol;
        void *to;
        bool needed;
    } rows[] = {
        {"cuptiGetVersion", &library->get_version, true},
        {"cuptiGetTimestamp", &library->get_timestamp, true},
        {"cuptiActivityRegisterCallbacks", &library->register_callbacks, true},
        {"cuptiActivityEnable", &library->enable, true},
        {"cuptiActivityDisable", &library->disable, true},
        {"cuptiActivityFlushAll", &library->flush, true},
        {"cuptiActivityGetNumDroppedRecords", &library->get_dropped, true},
        {"cuptiActivityGetNextRecord", &library->next, true},
        {"cuptiActivitySetAttribute", &library->set_attribute, false},
        {"cuptiSetThreadIdType", &library->set_thread_ids, false},
        {"cuptiActivityEnableRuntimeApi", &library->enable_runtime, false},
        {"cuptiActivityEnableDriverApi", &library->enable_driver, false},
        {"cuptiGetCallbackName", &library->callback_name, false},
        {"cuptiSubscribe", &library->subscribe, false},
        {"cuptiUnsubscribe", &library->unsubscribe, false},
    };

    *reason = "libcupti is not in this process: install the package nvidia-cuda-cupti";
    if (handle == NULL)
        return -ENOENT;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *symbol = dlsym(handle, rows[i].symbol);

        *reason = "libcupti lacks a function: it is older than CUDA 11";
        if (symbol == NULL && rows[i].needed)
            return -ENOENT;
        memcpy(rows[i].to, &symbol, sizeof(symbol));
    }
    *reason = "libcupti does not answer";
    return library->get_version(&library->version) == CUPTI_OK ? 0 : -ENOENT;
}
