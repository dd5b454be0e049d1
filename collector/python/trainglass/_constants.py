"""Numbers that the library and the package agree on; the names are those of
collector/probe/steps/steps.h and collector/wire/*.h, whose values never change."""

ITERATOR_BEGIN, ITERATOR_END = 0, 1
FETCH_BEGIN, FETCH_END, FETCH_EXHAUSTED = 2, 3, 4
BACKWARD_BEGIN, BACKWARD_END = 5, 6
OPTIMIZER_BEGIN, OPTIMIZER_END = 7, 8
OPTIMIZER_BUILT = 11
FORWARD_BEGIN, FORWARD_END = 12, 13
STEP = 14
EPOCH = 19

PHASES = {
    "data": (FETCH_BEGIN, FETCH_END),
    "forward": (FORWARD_BEGIN, FORWARD_END),
    "backward": (BACKWARD_BEGIN, BACKWARD_END),
    "optimizer": (OPTIMIZER_BEGIN, OPTIMIZER_END),
}

LEVELS = ("auto", "off", "phases", "ops", "kernels", "all")

TRAINER, LAUNCHER, WORKER = 1, 2, 3

SOURCE_CPU_OPS, SOURCE_RANGES, SOURCE_PYTHON, SOURCE_STACKS = 2, 3, 8, 10
ACTIVE, UNAVAILABLE, DISABLED = 1, 4, 5

HAPPENED_USER = 0
