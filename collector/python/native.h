/* What the files of the extension share. Every call with the GIL; none raises. */
#ifndef PYTHON_NATIVE_H
#define PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <stdint.h>
#include <structmember.h>

/* native.c: a mark of the calling thread; an exception that is set stays set. */
void native_mark(uint32_t kind, uint32_t id);
/* The calling thread is in the step() of this optimizer. */
void native_optimizer(uint32_t id);

/* wraps.c: adds `around` and `update` to the module; -1 with an exception. */
int wraps_add(PyObject *module);

#endif
