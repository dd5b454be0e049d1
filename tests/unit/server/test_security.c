#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/security.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static struct security_policy loopback = {.owner = 1000,
                                          .base_path = "",
                                          .allow_hosts = "gpu1.lab",
                                          .allow_frame = "",
                                          .port = 8080};
static struct security_policy open_to_network = {.token = TOKEN,
                                                 .token_required = true,
                                                 .owner = 1000,
                                                 .base_path = "",
                                                 .allow_hosts = "",
                                                 .allow_frame = "",
                                                 .port = 8080};

static struct security_header headers[4];

static struct security_request get_from(uid_t peer)
{
    headers[0] = (struct security_header){"Host", "localhost:8080"};
    return (struct security_request){.method = "GET",
                                     .path = "/",
                                     .headers = headers,
                                     .header_count = 1,
                                     .content_length = -1,
                                     .peer_known = true,
                                     .peer = peer};
}

static void add(struct security_request *request, const char *name, const char *value)
{
    headers[request->header_count++] = (struct security_header){name, value};
}

static void our_own_names_are_served(void **state)
{
    static const char *const hosts[] = {"localhost", "localhost:8080", "LocalHost:1",
                                        "127.0.0.1", "10.0.0.5:8080",  "[::1]:8080",
                                        "[fe80::1]", "gpu1.lab:8080",  "GPU1.lab"};
    (void)state;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        assert_int_equal(security_host(&loopback, hosts[i]), 0);
}

static int judged_upload(const char *type, const char *length, int64_t bytes)
{
    struct security_request request = get_from(1000);

    request.method = "POST";
    request.upload_bytes_max = 1u << 20;
    request.content_length = bytes;
    add(&request, "Content-Type", type);
    if (length != NULL)
        add(&request, "Content-Length", length);
    return security_judge(&loopback, &request).status;
}

static void a_file_may_be_large_up_to_its_quota_and_is_of_no_forms_type(void **state)
{
    (void)state;
    assert_int_equal(judged_upload("application/octet-stream", "1048576", 1048576), 0);
    assert_int_equal(judged_upload("application/gzip", "70000", 70000), 0);
    assert_int_equal(judged_upload("application/json", "70000", 70000), 0);
    assert_int_equal(judged_upload("application/gzip", "1048577", 1048577), 413);
    assert_int_equal(judged_upload("application/gzip", "99999999999999999999", -1),
                     413);
    assert_int_equal(judged_upload("application/gzip", NULL, -1), 411);
    assert_int_equal(judged_upload("text/plain", "5", 5), 415);
    assert_int_equal(judged_upload("multipart/form-data; boundary=x", "5", 5), 415);
}

static void names_of_others_are_misdirected(void **state)
{
    static const char *const hosts[] = {"evil.example",     "localhost.evil.com",
                                        "127.0.0.1.nip.io", "gpu1.lab.evil.com",
                                        "localhost.",       "127.1",
                                        "2130706433",       "gpu1"};
    (void)state;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        assert_int_equal(security_host(&loopback, hosts[i]), 421);
}

static void malformed_hosts_are_bad_requests(void **state)
{
    static const char *const hosts[] = {"",
                                        ":80",
                                        "local host",
                                        "a\"b",
                                        "[::1",
                                        "[::g]",
                                        "[::1]x",
                                        "localhost:",
                                        "localhost:x",
                                        "localhost:0",
                                        "localhost:65536",
                                        "a@b",
                                        "localhost:80:80",
                                        "[::1%25lo]",
                                        "<x>"};
    (void)state;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        assert_int_equal(security_host(&loopback, hosts[i]), 400);
}

static void exactly_one_host_is_needed(void **state)
{
    struct security_request request = get_from(1000);

    (void)state;
    request.header_count = 0;
    assert_int_equal(security_judge(&loopback, &request).status, 400);
    request = get_from(1000);
    add(&request, "host", "localhost:8080");
    assert_int_equal(security_judge(&loopback, &request).status, 400);
}

static void the_owner_and_root_may_look_and_nobody_else(void **state)
{
    struct security_request request = get_from(1000);

    (void)state;
    assert_int_equal(security_judge(&loopback, &request).status, 0);
    request = get_from(0);
    assert_int_equal(security_judge(&loopback, &request).status, 0);
    request = get_from(1001);
    assert_int_equal(security_judge(&loopback, &request).status, 403);
    request.open_to_all = true;
    assert_int_equal(security_judge(&loopback, &request).status, 0);
    request = get_from(1000);
    request.peer_known = false;
    assert_int_equal(security_judge(&loopback, &request).status, 403);
}

static void another_user_may_look_when_the_owner_shares_with_all(void **state)
{
    struct security_policy shared = loopback;
    struct security_request request = get_from(1001);

    (void)state;
    shared.any_user = true;
    assert_int_equal(security_judge(&shared, &request).status, 0);
}

static void the_token_opens_by_address_cookie_or_header(void **state)
{
    struct security_request request = get_from(1001);

    (void)state;
    assert_int_equal(security_judge(&open_to_network, &request).status, 401);
    request.query = "a=1&token=" TOKEN;
    assert_int_equal(security_judge(&open_to_network, &request).status, 302);
    request.query = "token=" TOKEN "0";
    assert_int_equal(security_judge(&open_to_network, &request).status, 401);
    request = get_from(1001);
    add(&request, "Authorization", "Bearer " TOKEN);
    assert_int_equal(security_judge(&open_to_network, &request).status, 0);
    request = get_from(1001);
    add(&request, "Cookie", "x=y; trainglass_8080=" TOKEN);
    assert_int_equal(security_judge(&open_to_network, &request).status, 0);
    request = get_from(1001);
    add(&request, "Cookie", "trainglass_8081=" TOKEN);
    assert_int_equal(security_judge(&open_to_network, &request).status, 401);
}

static void beyond_loopback_the_owner_needs_the_token_too(void **state)
{
    struct security_request request = get_from(1000);

    (void)state;
    assert_int_equal(security_judge(&open_to_network, &request).status, 401);
}

static void tokens_are_equal_only_as_a_whole(void **state)
{
    (void)state;
    assert_true(security_token_equal("abc", "abc", 3));
    assert_false(security_token_equal("abc", "ab", 2));
    assert_false(security_token_equal("abc", "abcd", 4));
    assert_false(security_token_equal("abc", "", 0));
    assert_false(security_token_equal("abc", "abd", 3));
}

static int post(const char *origin, const char *type, const char *length)
{
    struct security_request request = get_from(1000);

    request.method = "POST";
    request.content_length = 2;
    if (origin != NULL)
        add(&request, "Origin", origin);
    if (type != NULL)
        add(&request, "Content-Type", type);
    if (length != NULL)
        add(&request, "Content-Length", length);
    return security_judge(&loopback, &request).status;
}

static void a_post_comes_from_our_page_or_from_no_page(void **state)
{
    (void)state;
    assert_int_equal(post(NULL, "application/json", "2"), 0);
    assert_int_equal(post("http://localhost:8080", "application/json", "2"), 0);
    assert_int_equal(post("https://gpu1.lab", "application/json", "2"), 0);
    assert_int_equal(post("http://evil.example", "application/json", "2"), 403);
    assert_int_equal(post("http://localhost:8081", "application/json", "2"), 403);
    assert_int_equal(post("http://localhost:8080.evil.com", "application/json", "2"),
                     403);
    assert_int_equal(post("null", "application/json", "2"), 403);
    assert_int_equal(post("", "application/json", "2"), 403);
}

static int removal(const char *origin, const char *query, uid_t peer)
{
    struct security_request request = get_from(peer);

    request.method = "DELETE";
    request.query = query;
    if (origin != NULL)
        add(&request, "Origin", origin);
    return security_judge(&loopback, &request).status;
}

static void a_removal_is_asked_for_by_whom_a_post_is_obeyed(void **state)
{
    (void)state;
    assert_int_equal(removal(NULL, NULL, 1000), 0);
    assert_int_equal(removal("http://localhost:8080", NULL, 1000), 0);
    assert_int_equal(removal("http://evil.example", NULL, 1000), 403);
    assert_int_equal(removal("null", NULL, 1000), 403);
    assert_int_equal(removal(NULL, NULL, 1001), 403);
}

static void a_post_is_json(void **state)
{
    (void)state;
    assert_int_equal(post(NULL, "application/json; charset=utf-8", "2"), 0);
    assert_int_equal(post(NULL, "text/plain", "2"), 415);
    assert_int_equal(post(NULL, "application/x-www-form-urlencoded", "2"), 415);
    assert_int_equal(post(NULL, "application/jsonx", "2"), 415);
    assert_int_equal(post(NULL, NULL, "2"), 415);
}

static void impossible_lengths_are_refused_before_anything_is_read(void **state)
{
    struct security_request request = get_from(1000);

    (void)state;
    assert_int_equal(post(NULL, "application/json", "-1"), 400);
    assert_int_equal(post(NULL, "application/json", "abc"), 400);
    assert_int_equal(post(NULL, "application/json", "100000000000000000000"), 413);
    add(&request, "Content-Length", "3");
    add(&request, "Content-Length", "3");
    assert_int_equal(security_judge(&loopback, &request).status, 400);
    request = get_from(1000);
    add(&request, "Transfer-Encoding", "chunked");
    assert_int_equal(security_judge(&loopback, &request).status, 400);
    request = get_from(1000);
    request.content_length = SECURITY_BODY_BYTES_MAX + 1;
    add(&request, "Content-Length", "65537");
    assert_int_equal(security_judge(&loopback, &request).status, 413);
}

static void a_base_path_is_stripped_only_as_a_whole_segment(void **state)
{
    (void)state;
    assert_string_equal(security_strip_base("/proxy/8080", "/proxy/8080/api/ops"),
                        "/api/ops");
    assert_string_equal(security_strip_base("/proxy/8080", "/proxy/80801"),
                        "/proxy/80801");
    assert_string_equal(security_strip_base("/proxy/8080", "/api/ops"), "/api/ops");
    assert_string_equal(security_strip_base("", "/api/ops"), "/api/ops");
}

static void a_policy_that_would_open_the_door_does_not_start(void **state)
{
    struct security_policy policy = open_to_network;
    const char *reason;

    (void)state;
    assert_int_equal(security_policy_check(&policy, &reason), 0);
    policy.token = NULL;
    assert_int_not_equal(security_policy_check(&policy, &reason), 0);
    policy.token = "short";
    assert_int_not_equal(security_policy_check(&policy, &reason), 0);
    policy = loopback;
    policy.base_path = "/a/";
    assert_int_not_equal(security_policy_check(&policy, &reason), 0);
    policy.base_path = "/a\r\nSet-Cookie: x";
    assert_int_not_equal(security_policy_check(&policy, &reason), 0);
    policy = loopback;
    policy.allow_frame = "https://lab.example; script-src *";
    assert_int_not_equal(security_policy_check(&policy, &reason), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_names_are_served),
        cmocka_unit_test(a_file_may_be_large_up_to_its_quota_and_is_of_no_forms_type),
        cmocka_unit_test(names_of_others_are_misdirected),
        cmocka_unit_test(malformed_hosts_are_bad_requests),
        cmocka_unit_test(exactly_one_host_is_needed),
        cmocka_unit_test(the_owner_and_root_may_look_and_nobody_else),
        cmocka_unit_test(another_user_may_look_when_the_owner_shares_with_all),
        cmocka_unit_test(the_token_opens_by_address_cookie_or_header),
        cmocka_unit_test(beyond_loopback_the_owner_needs_the_token_too),
        cmocka_unit_test(tokens_are_equal_only_as_a_whole),
        cmocka_unit_test(a_post_comes_from_our_page_or_from_no_page),
        cmocka_unit_test(a_removal_is_asked_for_by_whom_a_post_is_obeyed),
        cmocka_unit_test(a_post_is_json),
        cmocka_unit_test(impossible_lengths_are_refused_before_anything_is_read),
        cmocka_unit_test(a_base_path_is_stripped_only_as_a_whole_segment),
        cmocka_unit_test(a_policy_that_would_open_the_door_does_not_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
