#include "http/peer.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

struct peer_question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
};

static bool diag_answer(int netlink, uid_t *uid)
{
    _Alignas(struct nlmsghdr) unsigned char answer[1024];
    ssize_t size = recv(netlink, answer, sizeof(answer), 0);
    struct inet_diag_msg message;
    struct nlmsghdr header;

    if (size < (ssize_t)(NLMSG_HDRLEN + sizeof(message)))
        return false;
    memcpy(&header, answer, sizeof(header));
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    memcpy(&message, answer + NLMSG_HDRLEN, sizeof(message));
    if (message.idiag_inode == 0) /* nobody holds it any more */
        return false;
    *uid = message.idiag_uid;
    return true;
}

static bool diag_uid(struct in_addr client, uint16_t client_port, uint16_t server_port,
                     uid_t *uid)
{
    struct timeval second = {.tv_sec = 1};
    struct peer_question question = {
        .header = {.nlmsg_len = sizeof(question),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = AF_INET,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = UINT32_MAX,
                 .id = {.idiag_sport = htons(client_port),
                        .idiag_dport = htons(server_port),
                        .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    bool known = false;

    if (netlink < 0)
        return false;
    question.body.id.idiag_src[0] = client.s_addr;
    question.body.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
    (void)setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
    if (send(netlink, &question, sizeof(question), 0) == (ssize_t)sizeof(question))
        known = diag_answer(netlink, uid);
    close(netlink);
    return known;
}

bool peer_line_matches(const char *line, uint32_t client, uint16_t client_port,
                       uint16_t server_port, uid_t *uid)
{
    unsigned local, local_port, remote_port, owner;
    unsigned long inode;

    if (sscanf(line, " %*d: %8X:%4X %*8X:%4X %*2X %*8X:%*8X %*X:%*8X %*8X %u %*d %lu",
               &local, &local_port, &remote_port, &owner, &inode) != 5)
        return false;
    if (local != client || local_port != client_port || remote_port != server_port ||
        inode == 0)
        return false;
    *uid = owner;
    return true;
}

static bool proc_uid(struct in_addr client, uint16_t client_port, uint16_t server_port,
                     uid_t *uid)
{
    FILE *table = fopen("/proc/net/tcp", "re");
    bool known = false;
    char line[256];

    if (table == NULL)
        return false;
    while (!known && fgets(line, sizeof(line), table) != NULL)
        known = peer_line_matches(line, client.s_addr, client_port, server_port, uid);
    fclose(table);
    return known;
}

bool peer_uid(const char *client_address, uint16_t client_port, uint16_t server_port,
              uid_t *uid)
{
    struct in_addr client;

    if (inet_pton(AF_INET, client_address, &client) != 1 ||
        (ntohl(client.s_addr) >> 24) != 127)
        return false;
    return diag_uid(client, client_port, server_port, uid) ||
           proc_uid(client, client_port, server_port, uid);
}
