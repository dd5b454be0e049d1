/* A fake libcuda.so.1, for tests alone: loads what CUDA_INJECTION64_PATH names inside
 * cuInit, as the driver does, and has as many devices as FAKE_CUDA_DEVICES says. */
#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic int initialized;

static int devices(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");

    return text != NULL ? (int)strtol(text, NULL, 10) : 1;
}

int cuInit(unsigned flags)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path != NULL ? dlopen(path, RTLD_NOW) : NULL;
    int (*inject)(void) = NULL;

    (void)flags;
    if (library != NULL)
        *(void **)&inject = dlsym(library, "InitializeInjection");
    if (inject != NULL && inject() == 0)
        dlclose(library);
    if (devices() == 0)
        return 100;
    initialized = 1;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    if (!initialized)
        return 3;
    *count = devices();
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < devices() ? 0 : 101;
}

/* H100s; with FAKE_CUDA_UNLIKE all but the first are RTX 2080s. */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const struct {
        int attribute, values[2];
    } rows[] = {{16, {132, 46}},       {39, {2048, 1024}}, {82, {65536, 65536}},
                {81, {233472, 65536}}, {106, {32, 16}},    {111, {1024, 0}}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].attribute == attribute) {
            *value = rows[i].values[device > 0 && getenv("FAKE_CUDA_UNLIKE") != NULL];
            return 0;
        }
    return 1;
}

/* The fake NVML's devices, from the one on that FAKE_CUDA_FIRST numbers. */
int cuDeviceGetPCIBusId(char *place, int bytes, int device)
{
    const char *first = getenv("FAKE_CUDA_FIRST");
    long bus = 0x3b + device + (first != NULL ? strtol(first, NULL, 10) : 0);

    snprintf(place, (size_t)bytes, "0000:%02lX:00.0", bus);
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}
