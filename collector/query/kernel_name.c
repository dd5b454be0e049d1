#include "query/kernel_name.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct word {
    const char *at;
    size_t length;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is(struct word word, const char *text)
{
    return strlen(text) == word.length && memcmp(word.at, text, word.length) == 0;
}

static bool has(struct word word, const char *part)
{
    return memmem(word.at, word.length, part, strlen(part)) != NULL;
}

/* The next identifier from `at` on; length 0 at the end. */
static struct word next_word(const char *at)
{
    size_t length = 0;

    while (*at != '\0' && !is_letter(*at)) {
        /* The digits of 2ul are no word, nor what follows them. */
        bool digit = *at >= '0' && *at <= '9';

        at++;
        while (digit && (is_letter(*at) || (*at >= '0' && *at <= '9')))
            at++;
    }
    while (is_letter(at[length]) || (at[length] >= '0' && at[length] <= '9'))
        length++;
    return (struct word){at, length};
}

/* It only says where the word behind it is from. */
static bool is_namespace(struct word word)
{
    return word.at[word.length] == ':' && word.at[word.length + 1] == ':';
}

/* These carry any function over the elements: the function says what they do. */
static bool is_carrier(struct word base)
{
    return has(base, "elementwise_kernel") || has(base, "reduce_kernel") ||
           has(base, "multi_tensor_apply_kernel") || is(base, "Kernel") ||
           is(base, "Kernel2") || is(base, "device_kernel");
}

/* What stands around the function, and types. */
static bool is_wrapping(struct word word)
{
    static const char *const words[] = {
        "anonymous",       "namespace",      "void",          "const",
        "unsigned",        "int",            "long",          "short",
        "char",            "float",          "double",        "bool",
        "true",            "false",          "BFloat16",      "Half",
        "array",           "lambda",         "operator",      "OpaqueType",
        "gpu_kernel_impl", "BinaryFunctor",  "AUnaryFunctor", "BUnaryFunctor",
        "ReduceOp",        "func_wrapper_t", "complex",       "gpu_kernel_impl_nocast",
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is(word, words[i]))
            return true;
    return has(word, "Metadata");
}

/* The kernel's own name: before its template's or its function's brackets. */
static struct word base_of(const char *name)
{
    struct word base = {name, 0};

    for (struct word word = next_word(name); word.length > 0;
         word = next_word(word.at + word.length)) {
        char behind = word.at[word.length];

        base = word;
        if (behind == '<' || behind == '(')
            break;
    }
    return base;
}

static struct word function_in(struct word base)
{
    struct word word = next_word(base.at + base.length);

    while (word.length > 0 && (is_namespace(word) || is_wrapping(word)))
        word = next_word(word.at + word.length);
    return word;
}

/* "elementwise" of "elementwise_kernel". */
static void drop_suffix(struct word *base)
{
    static const char suffix[] = "_kernel";
    size_t length = sizeof(suffix) - 1;

    if (base->length > length &&
        memcmp(base->at + base->length - length, suffix, length) == 0)
        base->length -= length;
}

/* Past an argument that is a number or a function (L...E) and past what names again what
 * was named before (S1_, T_): digits in them are no lengths. */
static const char *skip_mangled(const char *at)
{
    bool literal = *at == 'L' && (at[1] < '0' || at[1] > '9');
    size_t length = 1;

    if (literal)
        return at + strcspn(at, "E");
    if (*at == 'S' || *at == 'T')
        length += strspn(at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return at + (at[length] == '_' ? length : 1);
}

/* The next identifier of a mangled name, which stands behind its length, but for
 * namespaces without a name; length 0 at the end. */
static struct word next_mangled(const char *at)
{
    while (*at != '\0') {
        struct word word = {at, 0};
        size_t length = 0;

        for (; *word.at >= '0' && *word.at <= '9' && length < 1000; word.at++)
            length = 10 * length + (size_t)(*word.at - '0');
        while (word.length < length &&
               (is_letter(word.at[word.length]) ||
                (word.at[word.length] >= '0' && word.at[word.length] <= '9')))
            word.length++;
        if (length == 0 || word.length < length) {
            at = skip_mangled(at);
            continue;
        }
        if (strncmp(word.at, "_GLOBAL__N_", 11) != 0)
            return word;
        at = word.at + length;
    }
    return (struct word){at, 0};
}

/* The last of the identifiers that stand right behind each other: those before it say where
 * it is from. */
static struct word last_of_path(struct word word)
{
    while (word.length > 0) {
        const char *behind = word.at + word.length;
        struct word next = next_mangled(behind);

        if (*behind < '0' || *behind > '9' || next.length == 0)
            break;
        word = next;
    }
    return word;
}

/* "function (carrier)", of a carrier without its "_kernel". */
static void write_carried(struct word base, struct word function, char *text,
                          size_t size)
{
    drop_suffix(&base);
    (void)snprintf(text, size, "%.*s (%.*s)", (int)function.length, function.at,
                   (int)base.length, base.at);
}

/* As compilers write C++ names, where nobody has made them readable. ck_tile begins each of
 * its kernels in "kentry", which says nothing. */
static bool mangled_short_name(const char *name, char *text, size_t size)
{
    struct word base = last_of_path(next_mangled(name + 2));
    struct word inner = last_of_path(next_mangled(base.at + base.length));

    if (base.length > 0 && is(base, "kentry"))
        base = inner;
    if (base.length == 0)
        return false;
    if (is_carrier(base) && inner.length > 0)
        write_carried(base, inner, text, size);
    else
        (void)snprintf(text, size, "%.*s", (int)base.length, base.at);
    return true;
}

bool kernel_short_name(const char *name, char *text, size_t size)
{
    if (strncmp(name, "_Z", 2) == 0)
        return mangled_short_name(name, text, size);

    struct word base = base_of(name);
    bool of_c = strchr(name, '<') == NULL && strstr(name, "::") == NULL;
    struct word function = of_c || !is_carrier(base) ? (struct word){name, 0}
                                                      : function_in(base);

    if (of_c || base.length == 0)
        return false;
    if (function.length == 0) {
        (void)snprintf(text, size, "%.*s", (int)base.length, base.at);
        return true;
    }
    write_carried(base, function, text, size);
    return true;
}
