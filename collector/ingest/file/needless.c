/* Work that its neighbour makes needless, among the outermost ops of the training thread:
 *
 *     aten::conv2d                 aten::batch_norm
 *       aten::_convolution         subtracts the mean, and with it
 *         aten::add_  the bias     any bias
 *
 *     aten::zeros                  aten::to
 *       no work of a device          copies from the host: the device could have made it
 */
#include <string.h>

#include "ingest/file/parts.h"

/* Between the two is what Python takes to call the next op; later it may be another's. */
#define NEXT_NS 50000

enum file_needless_op file_needless_op(const char *name)
{
    static const struct {
        const char *name;
        enum file_needless_op op;
    } ops[] = {{"aten::_convolution", FILE_NEEDLESS_CONVOLUTION},
               {"aten::add_", FILE_NEEDLESS_ADD},
               {"aten::batch_norm", FILE_NEEDLESS_NORM},
               {"aten::_batch_norm_impl_index", FILE_NEEDLESS_NORM},
               {"aten::native_batch_norm", FILE_NEEDLESS_NORM},
               {"aten::cudnn_batch_norm", FILE_NEEDLESS_NORM},
               {"aten::batch_norm_stats", FILE_NEEDLESS_NORM},
               {"aten::zeros", FILE_NEEDLESS_FILL},
               {"aten::ones", FILE_NEEDLESS_FILL},
               {"aten::full", FILE_NEEDLESS_FILL},
               {"aten::eye", FILE_NEEDLESS_FILL},
               {"aten::arange", FILE_NEEDLESS_FILL},
               {"aten::linspace", FILE_NEEDLESS_FILL},
               {"aten::rand", FILE_NEEDLESS_FILL},
               {"aten::randn", FILE_NEEDLESS_FILL},
               {"aten::randint", FILE_NEEDLESS_FILL},
               {"aten::randperm", FILE_NEEDLESS_FILL},
               {"aten::to", FILE_NEEDLESS_COPY},
               {"aten::copy_", FILE_NEEDLESS_COPY}};

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(name, ops[i].name) == 0)
            return ops[i].op;
    return FILE_NEEDLESS_NONE;
}

static void commit(struct file *file, struct file_needless *of)
{
    struct file_needless *added =
        file_list_add(file, &file->needless, sizeof(*added), FILE_REMARK_MARKS);

    if (added != NULL)
        *added = *of;
    of->known = false;
}

void file_needless_begin(struct file *file, struct file_needless_walk *walk,
                         enum file_needless_op op, int64_t start_ns)
{
    if (walk->bias.known && op == FILE_NEEDLESS_NORM)
        commit(file, &walk->bias);
    /* The norm counts its batches, or what it is given is a sum: a bias is none the less
     * subtracted. */
    walk->bias.known &= op == FILE_NEEDLESS_ADD;
    walk->fill.known &=
        op == FILE_NEEDLESS_COPY && start_ns - walk->fill_end_ns <= NEXT_NS;
}

void file_needless_end(struct file *file, struct file_needless_walk *walk,
                       const struct file_needless_ended *ended)
{
    if (ended->op == FILE_NEEDLESS_ADD && ended->parent == FILE_NEEDLESS_CONVOLUTION &&
        ended->device_ns > 0)
        walk->bias = (struct file_needless){.known = true,
                                            .what = NEEDLESS_BIAS,
                                            .time_ns = ended->start_ns,
                                            .host_ns = ended->host_ns,
                                            .device_ns = ended->device_ns};
    if (!ended->outermost)
        return;
    if (ended->op == FILE_NEEDLESS_FILL && ended->device_ns == 0) {
        walk->fill = (struct file_needless){.known = true,
                                            .what = NEEDLESS_COPY,
                                            .time_ns = ended->start_ns,
                                            .host_ns = ended->host_ns};
        walk->fill_end_ns = ended->start_ns + ended->host_ns;
    } else if (walk->fill.known && ended->op == FILE_NEEDLESS_COPY) {
        walk->fill.host_ns = file_sum(walk->fill.host_ns, ended->host_ns);
        walk->fill.device_ns = ended->device_ns;
        if (ended->from_host)
            commit(file, &walk->fill);
        walk->fill.known = false;
    }
}

/* Those of training steps: both by time. */
void file_needless_sum(const struct file *file, struct process_needless *sums)
{
    const struct file_needless *list = file->needless.items;
    const struct file_step *steps = file->steps.items;
    uint32_t step = 0;

    for (uint32_t i = 0; i < file->needless.count; i++) {
        while (step < file->steps.count && steps[step].end_ns <= list[i].time_ns)
            step++;
        if (step == file->steps.count)
            return;
        if (list[i].time_ns < steps[step].start_ns ||
            (steps[step].flags & EVENT_STEP_VALIDATION))
            continue;
        struct process_needless *sum = &sums[list[i].what];

        sum->count++;
        sum->host_ns = file_sum(sum->host_ns, list[i].host_ns);
        sum->device_ns = file_sum(sum->device_ns, list[i].device_ns);
    }
}
