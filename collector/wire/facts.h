/* The keys of the job's facts: this table is the only list of them.
 *
 *     FACT(constant, key, type of enum wire_fact_type, what it says)
 *
 * A probe writes no other key, a finding reads no other source, and a key that nobody
 * wrote is not known (never 0, never false). A key keeps its type and meaning for ever;
 * new ones are appended to their group.
 */
#ifndef WIRE_FACTS_H
#define WIRE_FACTS_H

#include "wire/segment.h"

/* clang-format off */
#define WIRE_FACT_KEYS(FACT) \
    /* The training loader; a loader that only ever validates is not described. */ \
    FACT(DATALOADER_WORKERS, "dataloader.workers", NUMBER, "worker processes; 0: the trainer loads by itself") \
    FACT(DATALOADER_BATCH_SIZE, "dataloader.batch_size", NUMBER, "samples per batch and rank") \
    FACT(DATALOADER_SAMPLES, "dataloader.samples", NUMBER, "samples of the data set") \
    FACT(DATALOADER_BATCHES, "dataloader.batches", NUMBER, "batches per epoch") \
    FACT(DATALOADER_PIN_MEMORY, "dataloader.pin_memory", BOOL, "batches are copied to pinned memory") \
    FACT(DATALOADER_PREFETCH, "dataloader.prefetch_factor", NUMBER, "batches that each worker loads ahead") \
    FACT(DATALOADER_PERSISTENT, "dataloader.persistent_workers", BOOL, "workers live on between epochs") \
    FACT(DATALOADER_SHUFFLE, "dataloader.shuffle", BOOL, "samples come in random order") \
    FACT(DATALOADER_DROP_LAST, "dataloader.drop_last", BOOL, "an incomplete last batch is left out") \
    FACT(DATALOADER_START_METHOD, "dataloader.start_method", TEXT, "fork, spawn or forkserver") \
    FACT(DATALOADER_DATASET, "dataloader.dataset", TEXT, "class of the data set, inside of torch's Subset and ConcatDataset") \
    FACT(DATALOADER_FUNCTIONS, "dataloader.functions", TEXT, "dotted names of the functions that make its samples and batches, but for torch's; comma-separated") \
    FACT(DATALOADER_LOADERS, "dataloader.loaders", NUMBER, "loaders that were iterated so far") \
    FACT(DATALOADER_UNCOUNTED, "dataloader.uncounted", BOOL, "of a trace file: there are workers, but nothing tells how many") \
    /* Of the newest one that was constructed; the count says when there are several. */ \
    FACT(OPTIMIZER_CLASS, "optimizer.class", TEXT, "class of the optimizer") \
    FACT(OPTIMIZER_COUNT, "optimizer.count", NUMBER, "optimizers that made an update so far") \
    FACT(OPTIMIZER_FOREACH, "optimizer.foreach", BOOL, "updates all parameters together; not known: torch decides") \
    FACT(OPTIMIZER_FUSED, "optimizer.fused", BOOL, "updates in one fused kernel; not known: torch decides") \
    FACT(OPTIMIZER_CAPTURABLE, "optimizer.capturable", BOOL, "fit for a CUDA graph") \
    FACT(OPTIMIZER_PARAMETERS, "optimizer.parameters", NUMBER, "tensors that it updates") \
    FACT(OPTIMIZER_ELEMENTS, "optimizer.elements", NUMBER, "numbers in them") \
    FACT(OPTIMIZER_DEVICE, "optimizer.device", TEXT, "device of the first of them") \
    FACT(OPTIMIZER_DTYPE, "optimizer.dtype", TEXT, "type of the first of them") \
    /* Precision and kernels. */ \
    FACT(AMP_DTYPE, "amp.dtype", TEXT, "bfloat16 or float16; not known: autocast was not seen") \
    FACT(AMP_GRAD_SCALER, "amp.grad_scaler", BOOL, "gradients are scaled") \
    FACT(TF32_MATMUL, "tf32.matmul", BOOL, "float32 products may use TF32") \
    FACT(TF32_CUDNN, "tf32.cudnn", BOOL, "float32 convolutions may use TF32") \
    FACT(CUDNN_BENCHMARK, "cudnn.benchmark", BOOL, "cuDNN searches for the fastest algorithm") \
    FACT(CUDNN_DETERMINISTIC, "cudnn.deterministic", BOOL, "only deterministic algorithms") \
    /* Compilation. */ \
    FACT(COMPILE_USED, "compile.used", BOOL, "torch.compile compiled something") \
    FACT(COMPILE_COUNT, "compile.count", NUMBER, "graphs that were compiled so far") \
    FACT(COMPILE_RECOMPILATIONS, "compile.recompilations", NUMBER, "of them: again, because a guard failed") \
    FACT(COMPILE_RECOMPILATIONS_MOST, "compile.recompilations_most", NUMBER, "of them: of one function the most") \
    FACT(COMPILE_SECONDS, "compile.seconds", REAL, "wall time spent in it") \
    FACT(COMPILE_SECONDS_USUAL, "compile.seconds_usual", REAL, "of it, one compilation: the median; the first of a process also loads the compiler") \
    FACT(COMPILE_GRAPH_BREAKS, "compile.graph_breaks", NUMBER, "places where a graph had to end") \
    /* Threads and the machine. */ \
    FACT(THREADS_INTRA, "threads.intra_op", NUMBER, "of one CPU op") \
    FACT(THREADS_INTER, "threads.inter_op", NUMBER, "for ops that run beside each other") \
    FACT(THREADS_OMP, "threads.omp", NUMBER, "OMP_NUM_THREADS of the environment") \
    FACT(CPU_COUNT, "cpu.count", NUMBER, "cores that this process may use") \
    FACT(DEVICE_COUNT, "device.count", NUMBER, "accelerators that torch sees") \
    FACT(DEVICE_NAME, "device.name", TEXT, "name of the accelerator in use") \
    FACT(DEVICE_PCI, "device.pci", TEXT, "where CUDA's devices sit, in its order: 0000:3b:00.0 0000:af:00.0") \
    FACT(DEVICE_MULTIPROCESSOR, "device.multiprocessor", TEXT, "of CUDA's devices, in its order with a comma between, once where all are alike: how many, then each one's threads, registers, bytes of shared memory, blocks, bytes reserved of each block") \
    FACT(DEVICE_MEMORY, "device.memory_bytes", NUMBER, "its memory") \
    FACT(ALLOCATOR_DEVICE, "allocator.device", NUMBER, "index of the CUDA device that the allocator was asked about last") \
    FACT(ALLOCATOR_INACTIVE_SPLIT, "allocator.inactive_split_bytes", NUMBER, "free parts of its segments that hold live blocks too, asked once a second at updates") \
    FACT(DISTRIBUTED_BACKEND, "distributed.backend", TEXT, "gloo, nccl, ...") \
    FACT(DISTRIBUTED_WRAPPER, "distributed.wrapper", TEXT, "DDP, FSDP, DataParallel, ...") \
    FACT(DISTRIBUTED_BUCKET, "distributed.bucket_bytes", NUMBER, "of gradients, that DDP reduces together") \
    FACT(DISTRIBUTED_FIND_UNUSED, "distributed.find_unused", BOOL, "DDP looks in each step which parameters have no gradient") \
    /* The interpreter. */ \
    FACT(GC_COLLECTIONS, "gc.collections", NUMBER, "garbage collections of the oldest generation") \
    FACT(GC_SECONDS, "gc.seconds", REAL, "wall time spent in all of them") \
    FACT(GC_ENABLED, "gc.enabled", BOOL, "automatic collections are on") \
    /* What runs. */ \
    FACT(VERSION_PYTHON, "version.python", TEXT, "") \
    FACT(VERSION_TORCH, "version.torch", TEXT, "") \
    FACT(VERSION_CUDA, "version.cuda", TEXT, "that torch was built for") \
    FACT(VERSION_CUDNN, "version.cudnn", TEXT, "") \
    FACT(VERSION_LIGHTNING, "version.lightning", TEXT, "") \
    FACT(COMMAND, "command", TEXT, "the command line") \
    FACT(DIRECTORY, "directory", TEXT, "the working directory at the start") \
    FACT(SCRIPT, "script", TEXT, "the file that runs as __main__") \
    FACT(PYTHON_ATTACH_MS, "trainglass.attach_ms", REAL, "time that attaching took in this process") \
    FACT(DATALOADER_COLLATE_SHARE, "dataloader.collate_share", REAL, "of loading, 0 to 1; of the trainer's own, or of workers that are forks of it") \
    FACT(DATALOADER_TENSORS, "dataloader.tensors", NUMBER, "of the first batch") \
    FACT(DATALOADER_ELEMENTS, "dataloader.elements", NUMBER, "of the tensors of a batch, mean of this rank's so far; only beside other ranks") \
    FACT(WATCH_FUNCTIONS, "watch.functions", TEXT, "ranges of functions that the user watches, with a comma between them") \
    FACT(LOADER_STAGE, "loader.stage", TEXT, "of a worker: what its loader feeds: train, validate, ...") \
    FACT(INFERENCE, "inference", BOOL, "of a trace file: nothing in it goes backward, and no optimizer updates") \
    FACT(FRAMEWORK, "framework", TEXT, "of the libraries that run the training loop the outermost: lightning, transformers, ...; not known: the loop is the user's own") \
    FACT(OPTIMIZER_COMPILED, "optimizer.compiled", BOOL, "torch.compile traced an optimizer's step: its ops are no loop any more")
/* clang-format on */

#define WIRE_FACT_CONSTANT(constant, key, type, text)                                  \
    static const char *const FACT_##constant __attribute__((unused)) = key;
WIRE_FACT_KEYS(WIRE_FACT_CONSTANT)
#undef WIRE_FACT_CONSTANT

#endif
