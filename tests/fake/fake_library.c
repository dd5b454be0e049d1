/* A fake libtrainglass.so, for tests alone: a library of another version than the package,
 * or (FAKE_OLD) of the same and older, which has none of its functions yet. */
#include "probe/torch/python.h"

const struct trainglass_python *trainglass_python(void);

const struct trainglass_python *trainglass_python(void)
{
    static const struct trainglass_python table = {
#ifdef FAKE_OLD
        .bytes = 2 * sizeof(uint32_t),
        .major = TRAINGLASS_PYTHON_MAJOR,
#else
        .bytes = sizeof(table),
        .major = TRAINGLASS_PYTHON_MAJOR + 1,
#endif
    };

    return &table;
}
