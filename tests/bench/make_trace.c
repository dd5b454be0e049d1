/* A large trace to standard output: make_trace FROM MEGABYTES. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "replica.h"

int main(int argc, char **argv)
{
    struct replica *replica = argc == 3 ? replica_open(argv[1]) : NULL;
    bool good = replica != NULL;

    if (good)
        good = replica_write(replica, STDOUT_FILENO,
                             strtoull(argv[2], NULL, 10) * UINT64_C(1000000));
    else
        fputs("make_trace FROM MEGABYTES, FROM being a trace\n", stderr);
    replica_close(replica);
    return !good;
}
