/* What a step is, in words: on the page, and at the begin of each stretch. */
#include "probe/steps/steps.h"

#define SAY_BETTER "; trainglass.step() says where a step ends"

const char *steps_source_text(enum steps_source source)
{
    switch (source) {
    case STEPS_BY_BATCH:
        return "batches: nothing trains";
    case STEPS_BY_TRAINED_BATCH:
        return "batches with a backward: no known optimizer makes updates" SAY_BETTER;
    case STEPS_BY_BACKWARD:
        return "backward passes: no known optimizer makes updates, no DataLoader is "
               "asked" SAY_BETTER;
    case STEPS_BY_OPTIMIZER:
        return "Optimizer.step";
    case STEPS_BY_PROFILER:
        return "torch.profiler's step()";
    case STEPS_BY_FRAMEWORK:
        return "the framework's callbacks";
    case STEPS_BY_CALL:
        return "trainglass.step()";
    default:
        return "nobody";
    }
}
