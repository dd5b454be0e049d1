/* Work that its neighbour makes needless, among the outermost ops of the training thread:
 *
 *     aten::conv2d                 aten::batch_norm
 *       aten::_convolution         subtracts the mean, and with it
 *         aten::add_  the bias     any bias
 *
 *     aten::zeros                  aten::to
 *       no work of a device          copies from the host: the device could have made it
 */
#include "ingest/file/parts.h"

/* Between the two is what Python takes to call the next op; later it may be another's. */
#define NEXT_NS 50000

enum file_needless_op file_needless_op(const char *name)
{
    static const struct file_word ops[] = {
        {FILE_IS, "aten::_convolution", FILE_NEEDLESS_CONVOLUTION},
        {FILE_IS, "aten::add_", FILE_NEEDLESS_ADD},
        {FILE_IS, "aten::batch_norm", FILE_NEEDLESS_NORM},
        {FILE_IS, "aten::_batch_norm_impl_index", FILE_NEEDLESS_NORM},
        {FILE_IS, "aten::native_batch_norm", FILE_NEEDLESS_NORM},
        {FILE_IS, "aten::cudnn_batch_norm", FILE_NEEDLESS_NORM},
        {FILE_IS, "aten::batch_norm_stats", FILE_NEEDLESS_NORM},
        {FILE_IS, "aten::zeros", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::ones", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::full", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::eye", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::arange", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::linspace", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::rand", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::randn", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::randint", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::randperm", FILE_NEEDLESS_FILL},
        {FILE_IS, "aten::to", FILE_NEEDLESS_COPY},
        {FILE_IS, "aten::copy_", FILE_NEEDLESS_COPY}};

    return (enum file_needless_op)FILE_WORD_OF(ops, name);
}

static void commit(struct file *file, struct file_needless *of)
{
    (void)file_list_add(file, &file->needless, of, sizeof(*of), FILE_REMARK_MARKS);
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

void file_update_op(struct file *file, const struct event *op)
{
    static const struct file_word ways[] = {
        /* and addcdiv (gradients that are clipped together are multiplied) */
        {FILE_STARTS, "aten::_foreach_add", FILE_UPDATE_TOGETHER},
        {FILE_STARTS, "aten::_fused_ad",
         FILE_UPDATE_TOGETHER}, /* adam, adamw, adagrad */
        {FILE_STARTS, "aten::_fused_sgd", FILE_UPDATE_TOGETHER},
        {FILE_STARTS, "aten::addcdiv_", FILE_UPDATE_ADAM},
        {FILE_STARTS, "aten::add_", FILE_UPDATE_ADDS}};

    file->updates.calls_ns = file_sum(file->updates.calls_ns, (int64_t)op->value);
    file->updates.ways |=
        FILE_WORD_OF(ways, trace_names_get(file->names, EVENT_NAME(op->meta), NULL));
}
