/* What the files of the extension share. Every call with the GIL; none raises. */
#ifndef PYTHON_NATIVE_H
#define PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

/* A row of a table of methods whose arguments come as an array. */
#define NATIVE_FAST(name, function, text)                                              \
    {                                                                                  \
        name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, text               \
    }

/* native.c */
/* What is wrong with us stays here; Ctrl-C is raised again where Python looks for it. */
void native_forget_error(void);
/* A mark of the calling thread; an exception that is set stays set. */
void native_mark(uint32_t kind, uint32_t id);

/* wraps.c: adds `around`, `update` and their like to the module; -1 with an exception. */
int wraps_add(PyObject *module);

#endif
