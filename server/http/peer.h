/* Which local user is at the other end of a loopback connection. */
#ifndef HTTP_PEER_H
#define HTTP_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/attributes.h"

/* True with the uid of whoever holds the client's socket, the IPv4 loopback connection
 * from `client_port` to `server_port`. Asks the kernel by INET_DIAG, else reads
 * /proc/net/tcp. A socket that its owner has closed belongs to nobody: false, for the
 * kernel reports uid 0 for those. */
MUST_CHECK bool peer_uid(const char *client_address, uint16_t client_port,
                         uint16_t server_port, uid_t *uid);

/* One line of /proc/net/tcp; true when it is that connection, still held. `client` as
 * the kernel prints it: the address in host memory order. Pure; for tests. */
bool peer_line_matches(const char *line, uint32_t client, uint16_t client_port,
                       uint16_t server_port, uid_t *uid);

#endif
