/* A job in which CUDA is up before a libcupti is there, as cuInit by another package before
 * the import of torch: fake_late LIBCUPTI. Says whether its guest has found it. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "fake_cuda.h"

/* The guest looks for a minute; this is much later than he first looks. */
#define LATE_US  1000000u
#define PATIENCE 1000u

int main(int count, char **words)
{
    int (*is_watched)(int kind) = NULL;

    if (count != 2 || cuInit(0) != 0)
        return 5;
    usleep(LATE_US);
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);

    if (library != NULL)
        *(void **)&is_watched = dlsym(library, "fake_is_watched");
    if (is_watched == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 98;
    }
    for (unsigned i = 0; i < PATIENCE && is_watched(0) == 0; i++)
        usleep(10000);
    printf("%s\n", is_watched(0) != 0 ? "found" : "not found");
    return 0;
}
