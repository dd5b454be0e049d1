/* The sockets under CivetWeb's connections, which it tells nobody. Three things need them:
 * the hub writes news to hundreds of streams without waking a thread for each (hub.h);
 * an upload's read returns with what has come, and ends when its client has left
 * (body.c); connections that ask nothing give their threads up (seats.h). So they are
 * looked up among this process's descriptors by the ports at both ends.
 */
#ifndef HTTP_SOCKET_H
#define HTTP_SOCKET_H

#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* Is the descriptor an IPv4 connection to `server_port`? Then from *client. */
bool socket_connects(int descriptor, uint16_t server_port, struct sockaddr_in *client);

/* The next such descriptor of `folder`, an open /proc/self/fd; -1 at its end. */
int socket_next(DIR *folder, uint16_t server_port, struct sockaddr_in *client);

/* The connection from there; -1 when there is none or /proc cannot be read. */
int socket_find(const char *client_address, uint16_t client_port, uint16_t server_port);

#endif
