/* Trains a small multilayer perceptron in plain C: the smallest job worth profiling.
 *
 * Points on two interleaved spirals, with noise, go into 2 hidden layers with ReLU; plain
 * SGD with momentum on the softmax cross-entropy. It learns: the loss falls from 0.69 to
 * below 0.1. Every few dozen batches the "disk" stalls, as disks do. What it says about
 * itself goes through trainglass.h; without the library it is an ordinary program, and
 * prints the same losses.
 *
 *     train_mlp [--steps N] [--seconds S] [--step-ms MS] [--batch N] [--epoch-steps N]
 *               [--stall-every N] [--stall-ms MS] [--stall-from N] [--stall-until N]
 *               [--seed N] [--quiet]
 *
 * Runs for ever unless --steps or --seconds says otherwise.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "probe/trainglass.h"

enum { FEATURES = 16, HIDDEN = 128, CLASSES = 2, LAYERS = 3 };

struct options {
    long steps;       /* 0: for ever */
    double seconds;   /* 0: for ever */
    double step_ms;   /* a step lasts at least so long; 0: as long as it takes */
    long batch;       /* samples */
    long epoch_steps; /* steps between validations */
    long stall_every; /* batches; 0: never */
    long stall_from, stall_until; /* first batch that may, first that may not */
    double stall_ms;
    uint64_t seed;
    bool quiet;
};

/* Row-major matrix [rows][columns]. */
struct matrix {
    long rows, columns;
    float *values;
};

struct layer {
    struct matrix weights;         /* [inputs][outputs] */
    struct matrix gradient, speed; /* the same shape */
    float *bias, *bias_gradient, *bias_speed;
    const char *forward_name, *backward_name;
};

struct model {
    struct layer layers[LAYERS];
};

struct batch {
    struct matrix inputs; /* [batch][FEATURES] */
    int *labels;
};

static uint64_t random_state;

/* xorshift64*, the same numbers on every machine. */
static double random_unit(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (double)(random_state * 0x2545f4914f6cdd1du >> 11) / 9007199254740992.0;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void wait_ms(double ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1e3)};

    left.tv_nsec = (long)((ms / 1e3 - (double)left.tv_sec) * 1e9);
    while (ms > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* ---- memory, reported ---------------------------------------------------------------- */

static void *allocate(size_t bytes)
{
    void *block = calloc(1, bytes);

    if (block == NULL) {
        fputs("train_mlp: out of memory\n", stderr);
        exit(1);
    }
    trainglass_memory((int64_t)bytes);
    return block;
}

static void release(void *block, size_t bytes)
{
    trainglass_memory(-(int64_t)bytes);
    free(block);
}

static size_t matrix_bytes(const struct matrix *matrix)
{
    return (size_t)(matrix->rows * matrix->columns) * sizeof(float);
}

static struct matrix matrix_new(long rows, long columns)
{
    struct matrix matrix = {rows, columns, NULL};

    matrix.values = allocate(matrix_bytes(&matrix));
    return matrix;
}

static void matrix_free(struct matrix *matrix)
{
    release(matrix->values, matrix_bytes(matrix));
}

/* ---- arithmetic ------------------------------------------------------------------------ */

/* out = a b + bias */
static void multiply(const struct matrix *a, const struct matrix *b, const float *bias,
                     struct matrix *out)
{
    for (long i = 0; i < a->rows; i++) {
        float *row = out->values + i * out->columns;

        memcpy(row, bias, (size_t)out->columns * sizeof(float));
        for (long k = 0; k < a->columns; k++) {
            float factor = a->values[i * a->columns + k];
            const float *other = b->values + k * b->columns;

            for (long j = 0; j < b->columns; j++)
                row[j] += factor * other[j];
        }
    }
}

/* out += a^T b */
static void multiply_transposed_left(const struct matrix *a, const struct matrix *b,
                                     struct matrix *out)
{
    for (long i = 0; i < a->rows; i++)
        for (long k = 0; k < a->columns; k++) {
            float factor = a->values[i * a->columns + k];
            const float *other = b->values + i * b->columns;
            float *row = out->values + k * out->columns;

            for (long j = 0; j < b->columns; j++)
                row[j] += factor * other[j];
        }
}

/* out = a b^T */
static void multiply_transposed_right(const struct matrix *a, const struct matrix *b,
                                      struct matrix *out)
{
    for (long i = 0; i < a->rows; i++)
        for (long k = 0; k < b->rows; k++) {
            const float *left = a->values + i * a->columns;
            const float *right = b->values + k * b->columns;
            float sum = 0;

            for (long j = 0; j < a->columns; j++)
                sum += left[j] * right[j];
            out->values[i * out->columns + k] = sum;
        }
}

static void relu(struct matrix *matrix)
{
    for (long i = 0; i < matrix->rows * matrix->columns; i++)
        if (matrix->values[i] < 0)
            matrix->values[i] = 0;
}

/* ---- model ------------------------------------------------------------------------------ */

static void model_open(struct model *model)
{
    static const char *const forward[] = {"linear1", "linear2", "linear3"};
    static const char *const backward[] = {"linear1.backward", "linear2.backward",
                                           "linear3.backward"};
    static const long widths[] = {FEATURES, HIDDEN, HIDDEN, CLASSES};

    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &model->layers[i];
        size_t outputs = (size_t)widths[i + 1];
        double scale = sqrt(2.0 / (double)widths[i]);

        layer->weights = matrix_new(widths[i], widths[i + 1]);
        layer->gradient = matrix_new(widths[i], widths[i + 1]);
        layer->speed = matrix_new(widths[i], widths[i + 1]);
        layer->bias = allocate(outputs * sizeof(float));
        layer->bias_gradient = allocate(outputs * sizeof(float));
        layer->bias_speed = allocate(outputs * sizeof(float));
        layer->forward_name = forward[i];
        layer->backward_name = backward[i];
        for (long j = 0; j < widths[i] * widths[i + 1]; j++)
            layer->weights.values[j] = (float)((random_unit() * 2 - 1) * scale);
    }
}

/* Fills `outputs` (one matrix for each layer, allocated here) and returns the last. */
static const struct matrix *forward(const struct model *model,
                                    const struct matrix *inputs, struct matrix *outputs)
{
    for (int i = 0; i < LAYERS; i++) {
        const struct layer *layer = &model->layers[i];

        trainglass_op_push(layer->forward_name);
        outputs[i] = matrix_new(inputs->rows, layer->weights.columns);
        multiply(inputs, &layer->weights, layer->bias, &outputs[i]);
        trainglass_op_pop();
        if (i < LAYERS - 1) {
            trainglass_op_push("relu");
            relu(&outputs[i]);
            trainglass_op_pop();
        }
        inputs = &outputs[i];
    }
    return inputs;
}

/* Mean cross-entropy; turns `logits` into its gradient. */
static double cross_entropy(struct matrix *logits, const int *labels, long *right)
{
    double loss = 0;

    for (long i = 0; i < logits->rows; i++) {
        float *row = logits->values + i * CLASSES;
        double logit[CLASSES] = {(double)row[0], (double)row[1]};
        double high = logit[0] > logit[1] ? logit[0] : logit[1];
        double sum = exp(logit[0] - high) + exp(logit[1] - high);

        *right += logit[labels[i]] >= high;
        loss -= logit[labels[i]] - high - log(sum);
        for (int j = 0; j < CLASSES; j++)
            row[j] = (float)((exp(logit[j] - high) / sum - (j == labels[i])) /
                             (double)logits->rows);
    }
    return loss / (double)logits->rows;
}

static void backward(struct model *model, const struct matrix *inputs,
                     struct matrix *outputs)
{
    for (int i = LAYERS - 1; i >= 0; i--) {
        struct layer *layer = &model->layers[i];
        const struct matrix *before = i > 0 ? &outputs[i - 1] : inputs;
        struct matrix *delta = &outputs[i];

        trainglass_op_push(layer->backward_name);
        multiply_transposed_left(before, delta, &layer->gradient);
        for (long row = 0; row < delta->rows; row++)
            for (long j = 0; j < delta->columns; j++)
                layer->bias_gradient[j] += delta->values[row * delta->columns + j];
        if (i > 0) {
            struct matrix passed = matrix_new(before->rows, before->columns);

            multiply_transposed_right(delta, &layer->weights, &passed);
            for (long j = 0; j < passed.rows * passed.columns; j++)
                outputs[i - 1].values[j] =
                    outputs[i - 1].values[j] > 0 ? passed.values[j] : 0;
            matrix_free(&passed);
        }
        trainglass_op_pop();
    }
}

static void descend(float *weights, float *gradient, float *speed, long count)
{
    for (long i = 0; i < count; i++) {
        speed[i] = 0.9f * speed[i] - 0.004f * gradient[i];
        weights[i] += speed[i];
        gradient[i] = 0;
    }
}

static void update(struct model *model)
{
    for (int i = 0; i < LAYERS; i++) {
        struct layer *layer = &model->layers[i];

        trainglass_op_push("sgd");
        descend(layer->weights.values, layer->gradient.values, layer->speed.values,
                layer->weights.rows * layer->weights.columns);
        descend(layer->bias, layer->bias_gradient, layer->bias_speed,
                layer->weights.columns);
        trainglass_op_pop();
    }
}

/* ---- data -------------------------------------------------------------------------------- */

/* A point of the spiral `label`, lifted to FEATURES dimensions by sines. */
static void make_sample(float *features, int label)
{
    double along = random_unit(), angle = along * 6 + label * 3.14159265358979;
    double x = along * cos(angle) + (random_unit() - 0.5) * 0.05;
    double y = along * sin(angle) + (random_unit() - 0.5) * 0.05;

    for (int i = 0; i < FEATURES; i++)
        features[i] =
            (float)(i % 2 ? sin((i / 2 + 1) * 2 * x) : sin((i / 2 + 1) * 2 * y));
}

static struct batch load_batch(const struct options *options, long number)
{
    struct batch batch = {.inputs = matrix_new(options->batch, FEATURES)};

    batch.labels = allocate((size_t)options->batch * sizeof(int));
    trainglass_op_push("read");
    if (options->stall_every > 0 && number >= options->stall_from &&
        number < options->stall_until &&
        number % options->stall_every == options->stall_every - 1)
        wait_ms(options->stall_ms);
    trainglass_op_pop();
    trainglass_op_push("decode");
    for (long i = 0; i < options->batch; i++) {
        batch.labels[i] = random_unit() < 0.5;
        make_sample(batch.inputs.values + i * FEATURES, batch.labels[i]);
    }
    trainglass_op_pop();
    return batch;
}

static void batch_free(struct batch *batch, struct matrix *outputs)
{
    for (int i = 0; i < LAYERS; i++)
        matrix_free(&outputs[i]);
    release(batch->labels, (size_t)batch->inputs.rows * sizeof(int));
    matrix_free(&batch->inputs);
}

/* ---- loops --------------------------------------------------------------------------------- */

static double train_step(struct model *model, const struct options *options,
                         long number)
{
    struct matrix outputs[LAYERS];
    double begin = now_s(), loss;
    long right = 0;

    trainglass_phase_begin(TRAINGLASS_DATA);
    struct batch batch = load_batch(options, number);
    trainglass_phase_end(TRAINGLASS_DATA);

    trainglass_phase_begin(TRAINGLASS_FORWARD);
    (void)forward(model, &batch.inputs, outputs);
    trainglass_op_push("cross_entropy");
    loss = cross_entropy(&outputs[LAYERS - 1], batch.labels, &right);
    trainglass_op_pop();
    trainglass_phase_end(TRAINGLASS_FORWARD);

    trainglass_phase_begin(TRAINGLASS_BACKWARD);
    backward(model, &batch.inputs, outputs);
    trainglass_phase_end(TRAINGLASS_BACKWARD);

    trainglass_phase_begin(TRAINGLASS_OPTIMIZER);
    trainglass_range_push("SGD.step");
    update(model);
    trainglass_range_pop();
    trainglass_phase_end(TRAINGLASS_OPTIMIZER);

    batch_free(&batch, outputs);
    trainglass_metric("loss", loss);
    wait_ms(options->step_ms - (now_s() - begin) * 1e3);
    trainglass_step_samples((uint64_t)options->batch);
    return loss;
}

static double validate(struct model *model, const struct options *options)
{
    const long batches = 8;
    struct options calm = *options;
    long right = 0;

    calm.stall_every = 0;
    trainglass_validation(1);
    for (long i = 0; i < batches; i++) {
        struct matrix outputs[LAYERS];

        trainglass_phase_begin(TRAINGLASS_DATA);
        struct batch batch = load_batch(&calm, i);
        trainglass_phase_end(TRAINGLASS_DATA);
        trainglass_phase_begin(TRAINGLASS_FORWARD);
        (void)forward(model, &batch.inputs, outputs);
        (void)cross_entropy(&outputs[LAYERS - 1], batch.labels, &right);
        trainglass_phase_end(TRAINGLASS_FORWARD);
        batch_free(&batch, outputs);
        trainglass_step();
    }
    trainglass_validation(0);
    return (double)right / (double)(batches * options->batch);
}

static void train(struct model *model, const struct options *options)
{
    double begin = now_s(), sum = 0;
    uint32_t epoch = 1;

    trainglass_epoch(epoch);
    for (long step = 0; options->steps == 0 || step < options->steps; step++) {
        sum += train_step(model, options, step);
        if (options->seconds > 0 && now_s() - begin >= options->seconds)
            return;
        if ((step + 1) % options->epoch_steps != 0)
            continue;
        double accuracy = validate(model, options);

        trainglass_metric("accuracy", accuracy);
        if (!options->quiet)
            printf("epoch %u step %ld loss %.6f accuracy %.4f\n", epoch, step + 1,
                   sum / (double)options->epoch_steps, accuracy);
        fflush(stdout);
        sum = 0;
        trainglass_epoch(++epoch);
    }
}

/* ---- command line -------------------------------------------------------------------------- */

static int usage(const char *why, const char *what)
{
    fprintf(
        stderr,
        "train_mlp: %s %s\n"
        "usage: train_mlp [--steps N] [--seconds S] [--step-ms MS] [--batch N]\n"
        "                 [--epoch-steps N] [--stall-every N] [--stall-ms MS]\n"
        "                 [--stall-from N] [--stall-until N] [--seed N] [--quiet]\n",
        why, what);
    return 2;
}

static bool parse(struct options *options, const char *flag, double value)
{
    if (strcmp(flag, "--steps") == 0)
        options->steps = (long)value;
    else if (strcmp(flag, "--seconds") == 0)
        options->seconds = value;
    else if (strcmp(flag, "--step-ms") == 0)
        options->step_ms = value;
    else if (strcmp(flag, "--batch") == 0 && value >= 1)
        options->batch = (long)value;
    else if (strcmp(flag, "--epoch-steps") == 0 && value >= 1)
        options->epoch_steps = (long)value;
    else if (strcmp(flag, "--stall-every") == 0)
        options->stall_every = (long)value;
    else if (strcmp(flag, "--stall-ms") == 0)
        options->stall_ms = value;
    else if (strcmp(flag, "--stall-from") == 0)
        options->stall_from = (long)value;
    else if (strcmp(flag, "--stall-until") == 0)
        options->stall_until = (long)value;
    else if (strcmp(flag, "--seed") == 0)
        options->seed = (uint64_t)value;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct options options = {.batch = 64,
                              .epoch_steps = 200,
                              .stall_every = 50,
                              .stall_until = LONG_MAX,
                              .stall_ms = 40,
                              .seed = 1};
    static struct model model;

    for (int i = 1; i < argc; i++) {
        char *end = NULL;

        if (strcmp(argv[i], "--quiet") == 0) {
            options.quiet = true;
            continue;
        }
        double value = i + 1 < argc ? strtod(argv[i + 1], &end) : -1;

        if (end == NULL || end == argv[i + 1] || *end != '\0' ||
            !(value >= 0 && value < 1e9))
            return usage("needs a number from 0 to 1e9:", argv[i]);
        if (!parse(&options, argv[i++], value))
            return usage("does not know", argv[i - 1]);
    }
    random_state = options.seed * 2654435761u + 88172645463325252u;
    trainglass_thread_name("train");
    trainglass_fact_number("dataloader.workers", 0);
    trainglass_fact_number("dataloader.batch_size", options.batch);
    model_open(&model);
    train(&model, &options);
    return 0;
}
