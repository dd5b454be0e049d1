/* Calls of Python at step boundaries, while a deep window is wanted or open.
 *
 *     window_listen(function)    function() on the training thread, after a boundary
 *     window_word(which)         of the request and of the boundary: probe/window.h
 *     window_state(state)        watch every boundary, flag the steps
 *
 * A boundary lies in C, perhaps without the GIL. On the main thread the interpreter makes
 * the call as soon as it runs again; on another one, whose pending calls nobody makes, the
 * next mark of ours on that thread does. The one rule: only that thread calls.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "native.h"
#include "probe/torch/python.h"

static PyObject *listener;
static const char *_Atomic due; /* the thread that has to call; NULL none */
static _Thread_local char here; /* whose address is a thread's name */

/* 0, or -1 with KeyboardInterrupt or the like: the listener keeps the rest. */
static int call_listener(void)
{
    PyObject *result;

    atomic_store_explicit(&due, NULL, memory_order_relaxed);
    result = listener != NULL ? PyObject_CallFunctionObjArgs(listener, NULL) : NULL;
    if (result == NULL)
        return listener != NULL ? -1 : 0;
    Py_DECREF(result);
    return 0;
}

static int pending(void *none)
{
    (void)none;
    return atomic_load_explicit(&due, memory_order_relaxed) == &here ? call_listener()
                                                                     : 0;
}

/* On the training thread, inside a boundary. Relaxed: only this thread asks whether it
 * is the one. */
static int schedule(int (*call)(void *), void *argument)
{
    int error = Py_AddPendingCall(call, argument);

    if (error == 0)
        atomic_store_explicit(&due, &here, memory_order_relaxed);
    return error;
}

void native_boundary(void)
{
    if (atomic_load_explicit(&due, memory_order_relaxed) != &here || PyErr_Occurred())
        return;
    if (call_listener() != 0) { /* raised again where Python looks for signals */
        PyErr_Clear();
        PyErr_SetInterrupt();
    }
}

static PyObject *window_listen(PyObject *module, PyObject *function)
{
    const struct trainglass_python *table = native_table();

    (void)module;
    if (!NATIVE_HAS(table, window_state))
        Py_RETURN_FALSE;
    Py_INCREF(function);
    Py_XDECREF(listener);
    listener = function;
    table->window_listen(schedule, pending);
    Py_RETURN_TRUE;
}

static PyObject *window_word(PyObject *module, PyObject *which)
{
    const struct trainglass_python *table = native_table();
    long number = PyLong_AsLong(which);

    (void)module;
    if (number < 0 || !NATIVE_HAS(table, window_word)) {
        PyErr_Clear();
        return PyLong_FromLong(0);
    }
    return PyLong_FromUnsignedLongLong(table->window_word((uint32_t)number));
}

static PyObject *window_state(PyObject *module, PyObject *state)
{
    const struct trainglass_python *table = native_table();
    long number = PyLong_AsLong(state);

    (void)module;
    if (number < 0)
        PyErr_Clear();
    else if (NATIVE_HAS(table, window_state))
        table->window_state((uint32_t)number);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"window_listen", window_listen, METH_O, NULL},
    {"window_word", window_word, METH_O, NULL},
    {"window_state", window_state, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int boundary_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
