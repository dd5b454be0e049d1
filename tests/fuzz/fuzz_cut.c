/* Any piece of any text: what is cut out is valid JSON that our reader reads to its last
 * event, and nothing depends on which parts of the file were leapt over. The request
 * stands in the text's last bytes; the first line breaks become a block of them each. */
#include <string.h>
#include <zlib.h>

#include "cut/cut.h"
#include "cut/cut_json.h"
#include "fuzz.h"

/* More than the shortest stretch that is leapt over; and few, for runs to be short. */
#define BREAK_BYTES (size_t)70000
#define BREAKS_MAX  4u

struct piece {
    int error;
    struct cut_result result;
    char *text;
    size_t size;
};

/* ---- the file ----------------------------------------------------------------------- */

static void widen(struct bytes *text, const uint8_t *data, size_t size)
{
    uint32_t breaks = 0;

    for (size_t i = 0; i < size; i++) {
        bool wide = data[i] == '\n' && breaks++ < BREAKS_MAX;
        char *room = bytes_reserve(text, wide ? BREAK_BYTES : 1);

        if (room == NULL)
            return;
        memset(room, data[i], wide ? BREAK_BYTES : 1);
        text->size += wide ? BREAK_BYTES : 1;
    }
}

/* Stored, not packed: nothing in it can be leapt over. */
static void store(struct bytes *packed, const struct bytes *text)
{
    z_stream packer = {0};
    size_t room = text->size + text->size / 1000 + 1024;

    demand(deflateInit2(&packer, 0, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) ==
           Z_OK);
    packer.next_in = (Bytef *)text->data;
    packer.avail_in = (uInt)text->size;
    packer.next_out = (Bytef *)bytes_reserve(packed, room);
    packer.avail_out = (uInt)room;
    demand(packer.next_out != NULL && deflate(&packer, Z_FINISH) == Z_STREAM_END);
    packed->size = packer.total_out;
    deflateEnd(&packer);
}

static struct cut_request request_in(const uint8_t *data, size_t size)
{
    struct cut_request request = {.range = CUT_WHOLE};
    uint8_t last[8] = {0};

    memcpy(last, data + size - (size < 8 ? size : 8), size < 8 ? size : 8);
    request.range = (enum cut_range)(last[0] % 3);
    request.a = (int8_t)last[1] * (request.range == CUT_TIME ? INT64_C(10000) : 1);
    request.b = request.a + last[2] * (request.range == CUT_TIME ? INT64_C(10000) : 1);
    if (last[3] % 4 == 0)
        request.categories = UINT32_C(1) << last[4] % TRACE_CATEGORIES;
    if (last[5] % 4 == 0)
        request.max_bytes = 16 + (uint64_t)last[6] * 64;
    return request;
}

/* ---- a cut -------------------------------------------------------------------------- */

static struct piece cut(struct cut_request request, const struct bytes *text)
{
    static char path[40];
    struct piece piece = {0};
    struct output_file *output = malloc(sizeof(*output));
    int file = fuzz_file(text->data, text->size, path);

    demand(output != NULL && file >= 0);
    demand(output_file_open(output, "/dev/null") == 0);
    close(output->descriptor);
    output->descriptor = memfd_create("piece", MFD_CLOEXEC);
    output->is_temporary = true; /* it can be begun anew */
    request.path = path;
    piece.error = cut_write(&request, output, &piece.result);
    piece.size = (size_t)output->bytes;
    piece.text = malloc(piece.size + 1);
    demand(piece.text != NULL);
    demand(pread(output->descriptor, piece.text, piece.size, 0) == (ssize_t)piece.size);
    demand(piece.error == 0 || piece.result.error[0] != '\0');
    demand(request.max_bytes == 0 || piece.size <= request.max_bytes);
    output_file_close(output);
    free(output);
    close(file);
    return piece;
}

static bool count(void *user, struct trace_event *events, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        *(uint64_t *)user += events[i].phase != 'M';
    return true;
}

static void check_is_read_whole(const struct piece *piece)
{
    static const struct trace_options alone = {.one_thread = true};
    struct trace_reader *reader = trace_reader_new(&alone);
    uint64_t events = 0;

    demand(reader != NULL);
    demand(trace_reader_open_bytes(reader, piece->text, piece->size) == 0);
    demand(trace_reader_run(reader, count, &events) == 0);
    demand(trace_reader_skipped(reader) == 0 && events == piece->result.kept);
    demand(!trace_reader_report(reader)->is_cut);
    trace_reader_free(reader);
}

/* Valid JSON is what goes through the cleaner as it is. */
static void check_is_json(const struct piece *piece)
{
    struct bytes clean = {0};

    demand(piece->size > 0 && piece->text[piece->size - 1] == '\n');
    demand(cut_json_value(&clean, piece->text, piece->size - 1));
    demand(clean.size == piece->size - 1 &&
           memcmp(clean.data, piece->text, clean.size) == 0);
    bytes_close(&clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {0}, packed = {0};

    if (size == 0 || (data[0] != '{' && data[0] != '['))
        return 0;
    widen(&text, data, size);
    store(&packed, &text);
    struct cut_request request = request_in(data, size);
    struct piece piece = cut(request, &text), other = cut(request, &packed);

    demand(piece.error == other.error);
    if (piece.error == 0) {
        check_is_json(&piece);
        check_is_read_whole(&piece);
        demand(piece.size == other.size &&
               memcmp(piece.text, other.text, piece.size) == 0);
        demand(piece.result.events == other.result.events);
        demand(piece.result.skipped == other.result.skipped);
    }
    free(piece.text);
    free(other.text);
    bytes_close(&text);
    bytes_close(&packed);
    return 0;
}
