/* trainglass._native: the library's table as Python functions, for the hot calls.
 *
 * Limited API of Python 3.10: one file for every later version. The one rule: no
 * function raises for what is wrong with us; before load() all do nothing.
 *
 *     annotate("name")  context manager and decorator
 *     step(samples)     mark(kind, id)   range_push(name)   range_pop()   metric(n, v)
 */
#include "native.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "probe/steps/steps.h"
#include "probe/torch/python.h"

static const struct trainglass_python *table;
static PyObject *wake; /* called once before the first record of a sleeping process */
static PyObject *decorate; /* decorate(annotation, function): see _annotate.py */

#define HAS(member) NATIVE_HAS(table, member)

const struct trainglass_python *native_table(void)
{
    return table;
}

/* The process sleeps: a worker, a forked child. Who records something wakes it. */
static void awaken(long mark)
{
    PyObject *call = wake;

    wake = NULL;
    PyObject *result = PyObject_CallFunction(call, "l", mark);

    if (result == NULL)
        PyErr_Clear();
    Py_XDECREF(result);
    Py_DECREF(call);
}

static void wake_for(long mark)
{
    if (wake != NULL)
        awaken(mark);
}

/* Valid as long as `text`, "" for what is no text. Never raises. */
static const char *utf8(PyObject *text)
{
    const char *bytes =
        PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;

    if (bytes == NULL)
        PyErr_Clear();
    return bytes != NULL ? bytes : "";
}

static long integer(PyObject *value)
{
    long number = PyLong_Check(value) ? PyLong_AsLong(value) : 0;

    if (number == -1 && PyErr_Occurred())
        PyErr_Clear();
    return number;
}

static double real(PyObject *value)
{
    double number = PyFloat_AsDouble(value);

    if (PyErr_Occurred())
        PyErr_Clear();
    return number;
}

static PyObject *arguments_missing(void)
{
    PyErr_SetString(PyExc_TypeError, "too few arguments");
    return NULL;
}

/* ---- the session
 * --------------------------------------------------------------------- */

static PyObject *load(PyObject *module, PyObject *path)
{
    const struct trainglass_python *(*entry)(void);
    void *library = dlopen(utf8(path), RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "trainglass_python") : NULL;

    (void)module;
    if (symbol == NULL) {
        const char *why = dlerror();

        PyErr_SetString(PyExc_OSError, why != NULL ? why : "no such library");
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof(symbol));
    if (entry()->major != TRAINGLASS_PYTHON_MAJOR) {
        PyErr_SetString(PyExc_OSError, "library and package have different versions");
        return NULL;
    }
    table = entry();
    Py_RETURN_TRUE;
}

static PyObject *start(PyObject *module, PyObject *role)
{
    (void)module;
    return PyLong_FromLong(HAS(start) ? table->start((uint32_t)integer(role)) : -1);
}

static PyObject *is_open(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyBool_FromLong(HAS(is_open) && table->is_open());
}

static PyObject *text(const char *(*get)(void))
{
    const char *bytes = get != NULL ? get() : "";

    return PyUnicode_DecodeFSDefault(bytes != NULL ? bytes : "");
}

static PyObject *reason(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return text(HAS(reason) ? table->reason : NULL);
}

static PyObject *session(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return text(HAS(session) ? table->session : NULL);
}

static PyObject *path(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return text(HAS(path) ? table->path : NULL);
}

static PyObject *role(PyObject *module, PyObject *value)
{
    (void)module;
    if (HAS(role))
        table->role((uint32_t)integer(value));
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *module, PyObject *code)
{
    (void)module;
    if (HAS(end))
        table->end((int)integer(code));
    Py_RETURN_NONE;
}

static PyObject *set_wake(PyObject *module, PyObject *callable)
{
    PyObject *old = wake;

    (void)module;
    Py_INCREF(callable);
    wake = callable;
    if (callable == Py_None)
        Py_CLEAR(wake);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

/* ---- marks and ranges
 * ------------------------------------------------------------------ */

static PyObject *mark(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 1)
        return arguments_missing();
    long kind = integer(arguments[0]);

    wake_for(kind);
    if (HAS(mark))
        table->mark((uint32_t)kind, count > 1 ? (uint32_t)integer(arguments[1]) : 0);
    native_boundary();
    Py_RETURN_NONE;
}

void native_mark(uint32_t kind, uint32_t id)
{
    if (wake != NULL) {
        PyObject *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        awaken((long)kind);
        PyErr_Restore(type, value, trace);
    }
    if (HAS(mark))
        table->mark(kind, id);
    native_boundary();
}

static PyObject *step(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                      PyObject *words)
{
    Py_ssize_t named = words != NULL ? PyTuple_Size(words) : 0;

    (void)module;
    if (count + named > 1 ||
        (named == 1 && strcmp(utf8(PyTuple_GetItem(words, 0)), "samples") != 0)) {
        PyErr_SetString(PyExc_TypeError, "step() takes samples and nothing else");
        return NULL;
    }
    wake_for(STEPS_STEP);
    if (count + named > 0 && arguments[0] != Py_None && HAS(samples))
        table->samples((uint64_t)integer(arguments[0]));
    if (HAS(mark))
        table->mark(STEPS_STEP, 0);
    native_boundary();
    Py_RETURN_NONE;
}

static PyObject *range_push(PyObject *module, PyObject *name)
{
    (void)module;
    wake_for(-1);
    if (HAS(range_push))
        table->range_push(utf8(name));
    Py_RETURN_NONE;
}

static PyObject *range_pop(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (HAS(range_pop))
        table->range_pop();
    Py_RETURN_NONE;
}

static PyObject *metric(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 2)
        return arguments_missing();
    wake_for(-1);
    if (HAS(metric))
        table->metric(utf8(arguments[0]), real(arguments[1]));
    Py_RETURN_NONE;
}

static PyObject *ask(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 3)
        return arguments_missing();
    if (HAS(ask))
        table->ask((int32_t)integer(arguments[0]), (int32_t)integer(arguments[1]),
                   (uint32_t)integer(arguments[2]));
    Py_RETURN_NONE;
}

static PyObject *rank(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 3)
        return arguments_missing();
    if (HAS(rank))
        table->rank((int32_t)integer(arguments[0]), (int32_t)integer(arguments[1]),
                    (int32_t)integer(arguments[2]));
    Py_RETURN_NONE;
}

/* May wait for a third of a second; others need not. */
static PyObject *gpu_yield(PyObject *module, PyObject *begins)
{
    int begin = (int)integer(begins);

    (void)module;
    if (!HAS(gpu_yield))
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS;
    table->gpu_yield(begin);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *happened(PyObject *module, PyObject *const *arguments,
                          Py_ssize_t count)
{
    (void)module;
    if (count < 3)
        return arguments_missing();
    if (HAS(happened))
        table->happened((uint32_t)integer(arguments[0]), utf8(arguments[1]),
                        (uint64_t)integer(arguments[2]));
    Py_RETURN_NONE;
}

/* An entry of gc.callbacks: ("start" or "stop", {"generation": n, ...}). */
static PyObject *collecting(PyObject *module, PyObject *const *arguments,
                            Py_ssize_t count)
{
    (void)module;
    if (count < 2 || !HAS(gc_end))
        Py_RETURN_NONE;
    if (utf8(arguments[0])[0] == 's' && utf8(arguments[0])[2] == 'a') {
        table->gc_begin();
        Py_RETURN_NONE;
    }
    PyObject *generation = PyDict_Check(arguments[1])
                               ? PyDict_GetItemString(arguments[1], "generation")
                               : NULL;

    table->gc_end(generation != NULL ? (uint32_t)integer(generation) : 0);
    Py_RETURN_NONE;
}

/* ---- facts
 * --------------------------------------------------------------------------- */

static PyObject *fact(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 2)
        return arguments_missing();
    const char *key = utf8(arguments[0]);
    PyObject *value = arguments[1];

    if (PyBool_Check(value) && HAS(fact_bool))
        table->fact_bool(key, value == Py_True);
    else if (PyLong_Check(value) && HAS(fact_number))
        table->fact_number(key, integer(value));
    else if (PyFloat_Check(value) && HAS(fact_real))
        table->fact_real(key, real(value));
    else if (PyUnicode_Check(value) && HAS(fact_text))
        table->fact_text(key, utf8(value));
    Py_RETURN_NONE;
}

static PyObject *capability(PyObject *module, PyObject *const *arguments,
                            Py_ssize_t count)
{
    (void)module;
    if (count < 4)
        return arguments_missing();
    if (HAS(capability))
        table->capability((uint32_t)integer(arguments[0]),
                          (uint32_t)integer(arguments[1]),
                          arguments[2] != Py_None ? utf8(arguments[2]) : NULL,
                          arguments[3] != Py_None ? utf8(arguments[3]) : NULL);
    Py_RETURN_NONE;
}

/* ---- torch
 * --------------------------------------------------------------------------- */

static PyObject *torch_begin(PyObject *module, PyObject *scopes)
{
    (void)module;
    return PyLong_FromLong(
        HAS(torch_begin) ? table->torch_begin((uint32_t)integer(scopes)) : -1);
}

static PyObject *torch_end(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLong(HAS(torch_end) ? table->torch_end() : -1);
}

static PyObject *torch_fetching(PyObject *module, PyObject *begins)
{
    (void)module;
    if (HAS(torch_fetching))
        table->torch_fetching((int)integer(begins));
    Py_RETURN_NONE;
}

static PyObject *torch_optimizer(PyObject *module, PyObject *id)
{
    (void)module;
    if (HAS(torch_optimizer))
        table->torch_optimizer((uint32_t)integer(id));
    Py_RETURN_NONE;
}

void native_optimizer(uint32_t id)
{
    if (HAS(torch_optimizer))
        table->torch_optimizer(id);
}

/* ---- annotate
 * ------------------------------------------------------------------------ */

struct annotation {
    PyObject_HEAD PyObject *name; /* text; its UTF-8 lives as long */
};

static PyObject *annotate_new(PyTypeObject *type, PyObject *arguments, PyObject *words)
{
    static char name_word[] = "name", *names[] = {name_word, NULL};
    PyObject *name;

    if (!PyArg_ParseTupleAndKeywords(arguments, words, "U:annotate", names, &name))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct annotation *self = (struct annotation *)allocate(type, 0);

    if (self != NULL) {
        Py_INCREF(name);
        self->name = name;
    }
    return (PyObject *)self;
}

static void annotate_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    Py_XDECREF(((struct annotation *)object)->name);
    release(object);
    Py_DECREF(type);
}

static PyObject *annotate_enter(PyObject *object, PyObject *none)
{
    (void)none;
    wake_for(-1);
    if (HAS(range_push))
        table->range_push(utf8(((struct annotation *)object)->name));
    Py_INCREF(object);
    return object;
}

static PyObject *annotate_exit(PyObject *object, PyObject *const *arguments,
                               Py_ssize_t count)
{
    (void)object, (void)arguments, (void)count;
    if (HAS(range_pop))
        table->range_pop();
    Py_RETURN_NONE;
}

static PyObject *annotate_call(PyObject *object, PyObject *arguments, PyObject *words)
{
    PyObject *function;

    (void)words;
    if (!PyArg_ParseTuple(arguments, "O:annotate", &function))
        return NULL;
    return PyObject_CallFunctionObjArgs(decorate, object, function, NULL);
}

static PyObject *set_decorate(PyObject *module, PyObject *callable)
{
    (void)module;
    Py_XDECREF(decorate);
    Py_INCREF(callable);
    decorate = callable;
    Py_RETURN_NONE;
}

#define FAST(name, function, text)                                                     \
    {                                                                                  \
        name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, text               \
    }

static PyMethodDef annotate_methods[] = {
    {"__enter__", annotate_enter, METH_NOARGS, NULL},
    FAST("__exit__", annotate_exit, NULL),
    {NULL, NULL, 0, NULL},
};

static const char annotate_text[] =
    "annotate(name)\n--\n\nA named range around a block, or around every call of a "
    "function, each\nresumption of a generator or coroutine.";

static PyType_Slot annotate_slots[] = {
    {Py_tp_new, annotate_new},
    {Py_tp_dealloc, annotate_free},
    {Py_tp_call, annotate_call},
    {Py_tp_methods, annotate_methods},
    {Py_tp_doc, (void *)(uintptr_t)annotate_text},
    {0, NULL},
};

static PyType_Spec annotate_spec = {
    .name = "trainglass.annotate",
    .basicsize = sizeof(struct annotation),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = annotate_slots,
};

static PyMethodDef methods[] = {
    {"load", load, METH_O, "Loads libtrainglass.so from a path; raises OSError."},
    {"start", start, METH_O, NULL},
    {"is_open", is_open, METH_NOARGS, NULL},
    {"reason", reason, METH_NOARGS, NULL},
    {"session", session, METH_NOARGS, NULL},
    {"path", path, METH_NOARGS, NULL},
    {"role", role, METH_O, NULL},
    {"end", end, METH_O, NULL},
    {"set_wake", set_wake, METH_O, NULL},
    {"set_decorate", set_decorate, METH_O, NULL},
    FAST("mark", mark, NULL),
    {"step", (PyCFunction)(void (*)(void))step, METH_FASTCALL | METH_KEYWORDS,
     "step(samples=None)\n--\n\nEnds the running step and begins the next. "
     "`samples`: how many it saw."},
    {"range_push", range_push, METH_O, NULL},
    {"range_pop", range_pop, METH_NOARGS, NULL},
    FAST(
        "metric", metric,
        "metric(name, value, /)\n--\n\nA number of the running step, shown beside it."),
    FAST("ask", ask, NULL),
    FAST("rank", rank, NULL),
    {"gpu_yield", gpu_yield, METH_O, NULL},
    FAST("happened", happened, NULL),
    FAST("collecting", collecting, NULL),
    FAST("fact", fact, NULL),
    FAST("capability", capability, NULL),
    {"torch_begin", torch_begin, METH_O, NULL},
    {"torch_end", torch_end, METH_NOARGS, NULL},
    {"torch_fetching", torch_fetching, METH_O, NULL},
    {"torch_optimizer", torch_optimizer, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "trainglass._native",
    .m_doc = "The library's table as Python functions.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module != NULL ? PyType_FromSpec(&annotate_spec) : NULL;

    if (type == NULL || wraps_add(module) != 0 || boundary_add(module) != 0 ||
        PyModule_AddObject(module, "annotate", type) != 0) {
        Py_XDECREF(type);
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
