#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "web/assets.h"

static void the_empty_path_is_the_page(void **state)
{
    const struct web_asset *asset = web_asset_find("");

    (void)state;
    assert_non_null(asset);
    assert_string_equal(asset->path, "index.html");
    assert_string_equal(asset->content_type, "text/html; charset=utf-8");
    assert_memory_equal(asset->bytes, "<!doctype html>", 15);
}

static void every_asset_is_found_by_its_path(void **state)
{
    (void)state;
    assert_true(web_asset_count > 10);
    for (size_t i = 0; i < web_asset_count; i++)
        assert_ptr_equal(web_asset_find(web_assets[i].path), &web_assets[i]);
}

static void a_path_that_is_not_there_is_not_found(void **state)
{
    (void)state;
    assert_null(web_asset_find("js"));
    assert_null(web_asset_find("js/"));
    assert_null(web_asset_find("/index.html"));
    assert_null(web_asset_find("../web/index.html"));
}

static void the_gzipped_copies_hold_the_same_bytes(void **state)
{
    static unsigned char plain[1 << 20];

    (void)state;
    for (size_t i = 0; i < web_asset_count; i++) {
        const struct web_asset *asset = &web_assets[i];
        z_stream stream = {.next_out = plain, .avail_out = sizeof plain};

        if (!asset->gzip)
            continue;
        assert_true(asset->gzip_size < asset->size && asset->size <= sizeof plain);
        stream.next_in = (unsigned char *)(uintptr_t)asset->gzip;
        stream.avail_in = (unsigned)asset->gzip_size;
        assert_int_equal(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
        assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
        assert_int_equal(stream.total_out, asset->size);
        assert_memory_equal(plain, asset->bytes, asset->size);
        inflateEnd(&stream);
    }
}

static void inline_styles_are_allowed_to_speedscope_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < web_asset_count; i++) {
        int allowed = strstr(web_assets[i].policy, "unsafe-inline") != NULL;

        assert_int_equal(allowed, strncmp(web_assets[i].path, "speedscope/", 11) == 0);
        assert_non_null(strstr(web_assets[i].policy, "default-src 'none'"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_empty_path_is_the_page),
        cmocka_unit_test(every_asset_is_found_by_its_path),
        cmocka_unit_test(a_path_that_is_not_there_is_not_found),
        cmocka_unit_test(the_gzipped_copies_hold_the_same_bytes),
        cmocka_unit_test(inline_styles_are_allowed_to_speedscope_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
