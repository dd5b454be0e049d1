/* What the files of the extension share. Every call with the GIL; none raises. */
#ifndef PYTHON_NATIVE_H
#define PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

struct trainglass_python;

/* The library's table; NULL before use(). */
const struct trainglass_python *native_table(void);
/* A newer library has more than we know, an older one less. */
#define NATIVE_HAS(table, member)                                                      \
    ((table) != NULL &&                                                                \
     (table)->bytes >= offsetof(struct trainglass_python, member) + sizeof(void *) &&  \
     (table)->member != NULL)

/* A row of a table of methods whose arguments come as an array. */
#define NATIVE_FAST(name, function, text)                                              \
    {                                                                                  \
        name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, text               \
    }

/* native.c: who records something wakes a process that sleeps, a worker or a forked child;
 * `mark` is what is recorded, -1 for what is none. */
void native_wake_for(long mark);
/* Valid as long as `text`, "" for what is no text. */
const char *native_utf8(PyObject *text);
/* What is wrong with us stays here; Ctrl-C is raised again where Python looks for it. */
void native_forget_error(void);
/* A mark of the calling thread; an exception that is set stays set. */
void native_mark(uint32_t kind, uint32_t id);

/* wraps.c: adds `around`, `update` and their like to the module; -1 with an exception. */
int wraps_add(PyObject *module);

/* annotate.c: the same for the type `annotate` and what makes a decorator of it. */
int annotate_add(PyObject *module);

#endif
