#include "http/socket.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>

bool socket_connects(int descriptor, uint16_t server_port, struct sockaddr_in *client)
{
    struct sockaddr_in here = {0};
    socklen_t here_size = sizeof(here), client_size = sizeof(*client);

    return getsockname(descriptor, (struct sockaddr *)&here, &here_size) == 0 &&
           here.sin_family == AF_INET && ntohs(here.sin_port) == server_port &&
           getpeername(descriptor, (struct sockaddr *)client, &client_size) == 0;
}

int socket_next(DIR *folder, uint16_t server_port, struct sockaddr_in *client)
{
    const struct dirent *entry;

    while ((entry = readdir(folder)) != NULL) {
        int descriptor = (int)strtol(entry->d_name, NULL, 10);

        if (socket_connects(descriptor, server_port, client))
            return descriptor;
    }
    return -1;
}

int socket_find(const char *client_address, uint16_t client_port, uint16_t server_port)
{
    struct sockaddr_in client;
    struct in_addr wanted;
    int found = -1;

    if (inet_pton(AF_INET, client_address, &wanted) != 1)
        return -1;
    DIR *folder = opendir("/proc/self/fd");

    if (folder == NULL)
        return -1;
    do
        found = socket_next(folder, server_port, &client);
    while (found >= 0 && (client.sin_addr.s_addr != wanted.s_addr ||
                          ntohs(client.sin_port) != client_port));
    closedir(folder);
    return found;
}
