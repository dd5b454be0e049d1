/* What HTTP is made of without sockets: bytes, router, heads, the peer's line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/bytes.h"
#include "http/cache.h"
#include "http/head.h"
#include "http/peer.h"
#include "http/router.h"

static void json_is(const char *text, size_t size, size_t max, const char *expected)
{
    struct bytes out = {0};

    bytes_json(&out, text, size, max);
    bytes_append(&out, "", 1);
    assert_false(out.failed);
    assert_string_equal(out.data, expected);
    bytes_close(&out);
}

static void hostile_text_becomes_harmless_json(void **state)
{
    (void)state;
    json_is("a\"b\\c", 5, 99, "\"a\\\"b\\\\c\"");
    json_is("</script>", 9, 99, "\"\\u003c/script>\"");
    json_is("\x01\n\x7f", 3, 99, "\"\\u0001\\u000a\\u007f\"");
    json_is("\xe2\x80\xa8\xe2\x80\xa9", 6, 99, "\"\\u2028\\u2029\"");
    json_is("\xe2\x82\xac", 3, 99, "\"\xe2\x82\xac\"");
}

static void broken_utf8_becomes_replacement_characters(void **state)
{
    (void)state;
    json_is("a\xff"
            "b",
            3, 99,
            "\"a\xef\xbf\xbd"
            "b\"");
    json_is("\xc0\x80", 2, 99, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
    json_is("\xed\xa0\x80", 3, 99, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    json_is("\xf0\x9f\x98", 3, 99, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void long_text_is_cut_at_a_whole_character(void **state)
{
    (void)state;
    json_is("abcdef", 6, 3, "\"abc...\"");
    json_is("ab\xe2\x82\xac", 5, 4, "\"ab...\"");
}

static void shared_bytes_go_with_their_last_holder(void **state)
{
    struct shared_bytes *shared = shared_bytes_new("abc", 3);
    size_t size;

    (void)state;
    assert_ptr_equal(shared_bytes_hold(shared), shared);
    shared_bytes_release(shared);
    assert_memory_equal(shared_bytes_data(shared, &size), "abc", 3);
    assert_int_equal(size, 3);
    shared_bytes_release(shared);
}

static const struct http_route table[] = {
    {.methods = HTTP_GET, .path = "/api"},
    {.methods = HTTP_GET, .path = "/api/ops"},
    {.methods = HTTP_POST, .path = "/api/level"},
    {.methods = HTTP_GET, .path = "/api/traces/*"},
};

static struct router_match find(const char *path, enum http_method method)
{
    return router_find(table, sizeof(table) / sizeof(table[0]), path, method);
}

static void a_path_matches_byte_for_byte(void **state)
{
    static const char *const wrong[] = {
        "/apixyz",    "/api/",         "/api/ops/",    "/API/ops",   "//api/ops",
        "/api/%6fps", "/api/..%2fops", "/api/ops;a=1", "/api/./ops", "/api/../api/ops",
        "",           "api/ops"};
    (void)state;

    assert_ptr_equal(find("/api", HTTP_GET).route, &table[0]);
    assert_ptr_equal(find("/api/ops", HTTP_GET).route, &table[1]);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_null(find(wrong[i], HTTP_GET).route);
        assert_int_equal(find(wrong[i], HTTP_GET).methods, 0);
    }
}

static void a_tail_is_a_plain_name(void **state)
{
    static const char *const wrong[] = {"/api/traces/",          "/api/traces/..",
                                        "/api/traces/../secret", "/api/traces/a//b",
                                        "/api/traces/a%2f",      "/api/traces/.hidden",
                                        "/api/traces/a b",       "/api/traces//a"};
    (void)state;

    assert_string_equal(find("/api/traces/t-1.json", HTTP_GET).tail, "t-1.json");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_null(find(wrong[i], HTTP_GET).route);
}

static void a_wrong_method_says_which_are_right(void **state)
{
    char allow[32];

    (void)state;
    assert_null(find("/api/level", HTTP_GET).route);
    assert_int_equal(find("/api/level", HTTP_GET).methods, HTTP_POST);
    assert_non_null(find("/api/ops", HTTP_HEAD).route);
    router_allow(HTTP_GET | HTTP_POST, allow, sizeof(allow));
    assert_string_equal(allow, "GET, HEAD, POST");
    router_allow(HTTP_GET | HTTP_DELETE, allow, sizeof(allow));
    assert_string_equal(allow, "GET, HEAD, DELETE");
}

static void gzip_is_sent_only_where_it_is_wanted(void **state)
{
    (void)state;
    assert_true(head_accepts_gzip("gzip"));
    assert_true(head_accepts_gzip("deflate, gzip, br"));
    assert_true(head_accepts_gzip("br;q=1.0, gzip;q=0.8"));
    assert_false(head_accepts_gzip(""));
    assert_false(head_accepts_gzip("br, gzip;q=0"));
    assert_false(head_accepts_gzip("gzip;q=0.0, br"));
    assert_false(head_accepts_gzip("xgzip"));
    assert_false(head_accepts_gzip("gzipx"));
}

static void
the_token_leaves_the_address_and_nothing_hostile_enters_the_head(void **state)
{
    struct security_policy policy = {.token = "0123456789abcdef",
                                     .base_path = "/p",
                                     .allow_hosts = "",
                                     .allow_frame = "",
                                     .port = 8080};
    struct bytes out = {0};

    (void)state;
    head_token(&policy, "/", "s=1&token=0123456789abcdef&x=a\rb&y=2", &out);
    bytes_append(&out, "", 1);
    assert_string_equal(out.data,
                        "Location: /p/?s=1&y=2\r\n"
                        "Set-Cookie: trainglass_8080=0123456789abcdef; HttpOnly; "
                        "SameSite=Strict; Path=/p/\r\n");
    bytes_close(&out);
}

static void a_line_of_proc_net_tcp_names_the_holder_of_a_socket(void **state)
{
    static const char line[] =
        "  12: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  "
        "1000        0 98765 1 0000000000000000 20 4 30 10 -1\n";
    static const char orphan[] =
        "  12: 0100007F:D431 0100007F:1F90 04 00000000:00000000 00:00000000 00000000  "
        "   0        0 0 1 0000000000000000 20 4 30 10 -1\n";
    uid_t uid = 7;

    (void)state;
    assert_true(peer_line_matches(line, 0x0100007f, 0xd431, 8080, &uid));
    assert_int_equal(uid, 1000);
    assert_false(peer_line_matches(line, 0x0100007f, 0xd431, 8081, &uid));
    assert_false(peer_line_matches(line, 0x0100007f, 0xd430, 8080, &uid));
    assert_false(peer_line_matches(orphan, 0x0100007f, 0xd431, 8080, &uid));
    assert_false(peer_line_matches("nonsense", 0x0100007f, 0xd431, 8080, &uid));
}

static void a_cached_answer_is_given_while_it_is_fresh(void **state)
{
    struct shared_bytes *answer = shared_bytes_new("x", 1), *found;
    struct cache *cache = cache_new();

    (void)state;
    cache_put(cache, "/a?", 5, 1000, answer);
    found = cache_get(cache, "/a?", 5, 1000 + CACHE_FRESH_MS - 1);
    assert_ptr_equal(found, answer);
    shared_bytes_release(found);
    found = cache_get(cache, "/a?", 6, 1000 + CACHE_FRESHEST_MS - 1);
    assert_ptr_equal(found, answer);
    shared_bytes_release(found);
    assert_null(cache_get(cache, "/a?", 6, 1000 + CACHE_FRESHEST_MS));
    assert_null(cache_get(cache, "/a?", 5, 1000 + CACHE_FRESH_MS));
    assert_null(cache_get(cache, "/b?", 5, 1000));
    shared_bytes_release(answer);
    cache_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_text_becomes_harmless_json),
        cmocka_unit_test(broken_utf8_becomes_replacement_characters),
        cmocka_unit_test(long_text_is_cut_at_a_whole_character),
        cmocka_unit_test(shared_bytes_go_with_their_last_holder),
        cmocka_unit_test(a_path_matches_byte_for_byte),
        cmocka_unit_test(a_tail_is_a_plain_name),
        cmocka_unit_test(a_wrong_method_says_which_are_right),
        cmocka_unit_test(gzip_is_sent_only_where_it_is_wanted),
        cmocka_unit_test(
            the_token_leaves_the_address_and_nothing_hostile_enters_the_head),
        cmocka_unit_test(a_line_of_proc_net_tcp_names_the_holder_of_a_socket),
        cmocka_unit_test(a_cached_answer_is_given_while_it_is_fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
