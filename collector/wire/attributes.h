/* Compiler attributes under names that say what they are for. */
#ifndef WIRE_ATTRIBUTES_H
#define WIRE_ATTRIBUTES_H

#define MUST_CHECK       __attribute__((warn_unused_result))
#define EXPORTED         __attribute__((visibility("default")))
#define PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))
#define ALWAYS_INLINE    static inline __attribute__((always_inline))
#define NEVER_INLINE     __attribute__((noinline, cold))
#define LIKELY(x)        __builtin_expect(!!(x), 1)
#define UNLIKELY(x)      __builtin_expect(!!(x), 0)

#endif
