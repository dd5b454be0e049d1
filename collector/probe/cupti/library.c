#include "probe/cupti/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_SUCCESS         0
#define CUDA_NOT_INITIALIZED 3

struct search {
    const char *prefix; /* of the file's name */
    char *path;
    size_t bytes;
};

static int take_path(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;
    size_t length = strlen(info->dlpi_name);

    (void)size;
    if (strncmp(file, search->prefix, strlen(search->prefix)) != 0 ||
        length >= search->bytes)
        return 0;
    memcpy(search->path, info->dlpi_name, length + 1);
    return 1;
}

static bool find_mapped(const char *prefix, char *path, size_t bytes)
{
    struct search search = {prefix, path, bytes};

    return dl_iterate_phdr(take_path, &search) != 0;
}

/* ---- the driver -------------------------------------------------------------------- */

static void *driver(void)
{
    char path[512];

    return find_mapped("libcuda.so", path, sizeof(path))
               ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY)
               : NULL;
}

enum cupti_driver cupti_driver_state(void)
{
    void *handle = driver();
    int (*count_devices)(int *) = NULL;
    int devices = 0;

    if (handle != NULL)
        *(void **)&count_devices = dlsym(handle, "cuDeviceGetCount");
    if (count_devices == NULL)
        return CUPTI_DRIVER_ABSENT;
    int error = count_devices(&devices);

    if (error == CUDA_NOT_INITIALIZED)
        return CUPTI_DRIVER_ASLEEP;
    return error == CUDA_SUCCESS && devices > 0 ? CUPTI_DRIVER_READY
                                                : CUPTI_DRIVER_NO_GPU;
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

/* Where packages and the toolkit put it, seen from the folder of the CUDA runtime. */
static void *open_beside_runtime(char *path, size_t bytes, int *major)
{
    static const char *const folders[] = {"", "../../cuda_cupti/lib/",
                                          "../extras/CUPTI/lib64/",
                                          "../../../extras/CUPTI/lib64/"};
    char runtime[512], file[32];

    if (!find_mapped("libcudart.so.", runtime, sizeof(runtime)))
        return NULL;
    char *slash = strrchr(runtime, '/');

    *major = (int)strtol(strstr(runtime, "libcudart.so.") + strlen("libcudart.so."),
                         NULL, 10);
    if (slash == NULL)
        return NULL;
    slash[1] = '\0';
    file_name(*major, file, sizeof(file));
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        int length = snprintf(path, bytes, "%s%s%s", runtime, folders[i], file);
        void *handle =
            length > 0 && (size_t)length < bytes ? dlopen(path, RTLD_LAZY) : NULL;

        if (handle != NULL)
            return handle;
    }
    return NULL;
}

static void *open_any(char *path, size_t bytes)
{
    int major = 0;

    if (find_mapped("libcupti.so", path, bytes))
        return dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    void *handle = open_beside_runtime(path, bytes, &major);

    if (handle != NULL)
        return handle;
    /* A CUPTI that is newer than its driver does not work; an older one does. */
    for (int next = major != 0 ? major : driver_major(); next >= 11; next--) {
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
    void *handle = open_any(library->path, sizeof(library->path));
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
