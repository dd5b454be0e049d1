#include "aggregate/texts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "wire/hash.h"
#include "wire/text.h"
#include "wire/utf8.h"

#define PAGE_TEXTS  1024u
#define PAGES       (TEXTS_MAX / PAGE_TEXTS)
#define CHUNK_BYTES ((size_t)32 * 1024)

struct text {
    const char *text;
    uint32_t length;
    uint32_t hash;
    enum text_class class;
};

struct chunk {
    struct chunk *older;
    size_t used, size;
    char bytes[];
};

struct texts {
    _Atomic uint32_t references; /* last release pairs with the acquire fence there */
    uint32_t count;
    bool full;
    uint64_t refused;
    size_t bytes;
    struct text *pages[PAGES];
    struct chunk *chunks;
    uint32_t *index; /* ids by hash, 0 = free */
    uint32_t index_mask;
};

static struct text *at(const struct texts *texts, uint32_t id)
{
    return &texts->pages[id / PAGE_TEXTS][id % PAGE_TEXTS];
}

struct texts *texts_new(void)
{
    struct texts *texts = calloc(1, sizeof(*texts));

    if (texts == NULL)
        return NULL;
    texts->index_mask = 255;
    texts->index = calloc(texts->index_mask + 1, sizeof(*texts->index));
    texts->pages[0] = calloc(PAGE_TEXTS, sizeof(struct text));
    atomic_init(&texts->references, 1);
    texts->count = 1;
    if (texts->index == NULL || texts->pages[0] == NULL) {
        texts_release(texts);
        return NULL;
    }
    texts->pages[0][0].text = "";
    return texts;
}

struct texts *texts_share(struct texts *texts)
{
    atomic_fetch_add_explicit(&texts->references, 1, memory_order_relaxed);
    return texts;
}

void texts_release(struct texts *texts)
{
    /* Release: our reads happen before the free by whoever is last. */
    if (texts == NULL ||
        atomic_fetch_sub_explicit(&texts->references, 1, memory_order_acq_rel) != 1)
        return;
    while (texts->chunks != NULL) {
        struct chunk *older = texts->chunks->older;

        free(texts->chunks);
        texts->chunks = older;
    }
    for (uint32_t i = 0; i < PAGES; i++)
        free(texts->pages[i]);
    free(texts->index);
    free(texts);
}

/* Length of the printable character at `bytes`, 0 when there is none. */
static size_t character(const unsigned char *bytes, size_t left)
{
    uint32_t code = 0;
    size_t length = utf8_decode(bytes, left, &code);
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);

    return control ? 0 : length;
}

void texts_clean(const char *bytes, size_t length, char *clean, size_t size)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t out = 0;

    for (size_t in = 0; in < length;) {
        size_t unit = character((const unsigned char *)bytes + in, length - in);
        const char *from = unit > 0 ? bytes + in : replacement;
        size_t add = unit > 0 ? unit : sizeof(replacement) - 1;

        if (add >= size - out)
            break;
        memcpy(clean + out, from, add);
        out += add;
        in += unit > 0 ? unit : 1;
    }
    clean[out] = '\0';
}

enum text_class texts_classify(const char *text)
{
    static const char *const annotations[] = {
        "enumerate(DataLoader)",
        "Optimizer.",
        "record_param_comms",
        "Torch-Compiled Region",
        "## Call Compiled",
        "CompiledFunction",
        "TorchDynamo Cache",
        "DistributedDataParallel.forward",
        "FSDP::",
        "[pl]",
        "PL:",
    };

    if (text_starts(text, "ProfilerStep"))
        return TEXT_STEP;
    for (size_t i = 0; i < sizeof(annotations) / sizeof(annotations[0]); i++)
        if (text_starts(text, annotations[i]))
            return TEXT_ANNOTATION;
    return TEXT_PLAIN;
}

static const char *keep(struct texts *texts, const char *text, size_t size)
{
    struct chunk *chunk = texts->chunks;

    if (texts->bytes > TEXTS_BYTES_MAX - size)
        return NULL;
    if (chunk == NULL || size > chunk->size - chunk->used) {
        chunk = malloc(sizeof(*chunk) + CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        *chunk = (struct chunk){.older = texts->chunks, .size = CHUNK_BYTES};
        texts->chunks = chunk;
    }
    char *copy = chunk->bytes + chunk->used;

    memcpy(copy, text, size);
    chunk->used += size;
    texts->bytes += size;
    return copy;
}

static bool index_grow(struct texts *texts)
{
    uint32_t mask = texts->index_mask * 2 + 1;
    uint32_t *index = calloc((size_t)mask + 1, sizeof(*index));

    if (index == NULL)
        return false;
    for (uint32_t id = 1; id < texts->count; id++) {
        uint32_t slot = at(texts, id)->hash & mask;

        while (index[slot] != 0)
            slot = (slot + 1) & mask;
        index[slot] = id;
    }
    free(texts->index);
    texts->index = index;
    texts->index_mask = mask;
    return true;
}

static uint32_t add(struct texts *texts, const char *clean, uint32_t h, uint32_t slot)
{
    uint32_t id = texts->count;
    size_t length = strlen(clean);

    if (id >= TEXTS_MAX || texts->full)
        return 0;
    if (texts->pages[id / PAGE_TEXTS] == NULL)
        texts->pages[id / PAGE_TEXTS] = calloc(PAGE_TEXTS, sizeof(struct text));
    const char *text =
        texts->pages[id / PAGE_TEXTS] != NULL ? keep(texts, clean, length + 1) : NULL;

    if (text == NULL)
        return 0;
    *at(texts, id) = (struct text){.text = text,
                                   .length = (uint32_t)length,
                                   .hash = h,
                                   .class = texts_classify(text)};
    texts->index[slot] = id;
    texts->count++;
    texts->full = texts->count > texts->index_mask / 2 && !index_grow(texts);
    return id;
}

uint32_t texts_intern(struct texts *texts, const char *bytes, size_t length)
{
    char clean[TEXT_BYTES_MAX + 1];

    texts_clean(bytes, length, clean, sizeof(clean));
    if (clean[0] == '\0')
        return 0;
    uint32_t h = hash_fold(hash_text(clean)), slot = h & texts->index_mask;

    for (; texts->index[slot] != 0; slot = (slot + 1) & texts->index_mask) {
        uint32_t id = texts->index[slot];

        if (at(texts, id)->hash == h && strcmp(at(texts, id)->text, clean) == 0)
            return id;
    }
    uint32_t id = add(texts, clean, h, slot);

    texts->refused += id == 0;
    return id;
}

/* Not by the count: that grows while others read what they were told of before. */
static bool is_there(const struct texts *texts, uint32_t id)
{
    return id < TEXTS_MAX && texts->pages[id / PAGE_TEXTS] != NULL &&
           at(texts, id)->text != NULL;
}

const char *texts_get(const struct texts *texts, uint32_t id)
{
    return is_there(texts, id) ? at(texts, id)->text : "";
}

enum text_class texts_class(const struct texts *texts, uint32_t id)
{
    return is_there(texts, id) ? at(texts, id)->class : TEXT_PLAIN;
}

uint32_t texts_count(const struct texts *texts)
{
    return texts->count;
}

uint64_t texts_refused(const struct texts *texts)
{
    return texts->refused;
}
