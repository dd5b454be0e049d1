/* The table of commands: names, help and what each heeds. */
#include "command/arguments.h"

#define BIT(id) (UINT32_C(1) << (id))
#define SHARED  (BIT(OPTION_DIR) | BIT(OPTION_SHARE))
#define PROBE   (BIT(OPTION_BUDGET) | BIT(OPTION_LEVEL) | BIT(OPTION_CUDA_GRAPHS))
/* OPTION_FINDING's bit stands for every threshold. */
#define SERVER                                                                         \
    (BIT(OPTION_LINGER) | BIT(OPTION_PORT) | BIT(OPTION_BIND) | BIT(OPTION_TOKEN) |    \
     BIT(OPTION_BASE_PATH) | BIT(OPTION_ALLOW_HOST) | BIT(OPTION_ALLOW_FRAME) |        \
     BIT(OPTION_STREAM_CLIENTS) | BIT(OPTION_HISTORY) | BIT(OPTION_RUNS) |             \
     BIT(OPTION_STATE_DIR) | BIT(OPTION_WINDOW_DIR) | BIT(OPTION_UPLOAD_MAX) |         \
     BIT(OPTION_FINDING))

/* clang-format off: a table */
const struct command commands[] = {
    {.name = "run",
     .arguments = "[--] CMD [ARG...]",
     .summary = "train with CMD and watch it at http://localhost:8080",
     .help =
         "Starts CMD as it is: no change of your code, its own input and output, its "
         "own exit\n"
         "code. A server is started beside it unless one of yours is there, and "
         "stays after the\n"
         "command for `linger`. Whatever goes wrong with the profiler, CMD runs.\n"
         "\n"
         "  trainglass run -- python train.py --epochs 10\n"
         "  trainglass run -- torchrun --nproc-per-node 4 train.py\n"
         "  trainglass run --no-server -- python train.py     (a sidecar serves)\n"
         "  trainglass run --fail-on 'data > 20 %' --report run.html -- python "
         "train.py\n"
         "\n"
         "EXPR is NAME > or < NUMBER UNIT. NAME: step, step.p95, data, forward, "
         "backward,\n"
         "optimizer, other, idle, idle.CAUSE or finding.ID in ms per step or % of a "
         "step; memory in\n"
         "MiB, GiB or %; overhead in %. It is true when the whole 95 % interval lies "
         "beyond;\n"
         "of a finding without a price (a risk) `> 0 ms` is true while it stands.\n",
     .settings = SHARED | PROBE | SERVER,
     .flags = {{"--name", "NAME", "name of the run on the page; else the script's"},
               {"--no-server", NULL, "record only: something else serves the page"},
               {"--fail-on", "EXPR",
                "exit 1 instead of 0 when EXPR holds at the end; may be repeated"},
               {"--report", "FILE",
                "write FILE.html, .md or .json when the command has ended; may be "
                "repeated"}},
     .min_arguments = 1,
     .max_arguments = 1 << 20,
     .stops_at_argument = 1,
     .hides_json = true,
     .repeats = 1u << 2 | 1u << 3 /* --fail-on, --report */,
     .run = command_run},
    {.name = "serve",
     .arguments = "[FILE...]",
     .summary = "show the page for jobs that run or ran here, or for trace files",
     .help =
         "Shows every session in shared memory until it is interrupted. It only "
         "reads: starting,\n"
         "stopping or killing it changes nothing for a job. With traces of "
         "torch.profiler (or a\n"
         "folder, tar or zip of ranks) it shows these instead; one that cannot be "
         "read is named.\n"
         "\n"
         "  trainglass serve --port 9000\n"
         "  trainglass serve trace.json.gz\n"
         "  trainglass serve --bind 0.0.0.0     (prints the address with its token)\n",
     .settings = SHARED | SERVER,
     .flags = {{"--check", NULL, "exit 0 when a server of yours answers on the port"},
               {"--ready-fd", "N", NULL}},
     .max_arguments = 1 << 20,
     .hides_json = true,
     .run = command_serve},
    {.name = "demo",
     .arguments = "[-- ARG...]",
     .summary = "a small real training to look at",
     .help = "Trains a small network in C, instrumented through trainglass.h, and "
             "shows its page,\n"
             "until it is interrupted. What stands behind -- goes to "
             "examples/train_mlp.c.\n"
             "\n"
             "  trainglass demo --port 9000\n"
             "  trainglass demo -- --seconds 60     (ends by itself)\n",
     .settings = SHARED | PROBE | SERVER,
     .flags = {{"--no-server", NULL, "record only: something else serves the page"}},
     .max_arguments = 64,
     .stops_at_argument = 1,
     .hides_json = true,
     .run = command_demo},
    {.name = "doctor",
     .arguments = "",
     .summary = "what can be recorded here, what not, and what to do about it",
     .help = "Checks every source of events, the shared memory, the port and the "
             "containers' limits.\n"
             "Exits 0 when a job can be recorded and shown, 4 when not.\n",
     .settings = SHARED | PROBE | SERVER,
     .flags = {{"--python", "FILE",
                "the interpreter that trains; else python3 or python"}},
     .run = command_doctor},
    {.name = "dump",
     .arguments = "[SESSION]",
     .summary = "what a session left in shared memory, as it stands there",
     .help = "Prints header, facts, capabilities, threads and counts of events of "
             "every process of a\n"
             "session; with --events also the newest events. Without SESSION: the "
             "list of sessions.\n",
     .settings = BIT(OPTION_DIR),
     .flags = {{"--events", "N", "also the newest N events of every thread"}},
     .max_arguments = 1,
     .run = command_dump},
    {.name = "clean",
     .arguments = "",
     .summary = "remove what ended jobs left in shared memory",
     .help = "Removes the files of sessions whose processes are all gone. Running jobs "
             "are left\n"
             "alone, and so are earlier runs on disk.\n",
     .settings = BIT(OPTION_DIR),
     .flags = {{"--dry-run", NULL, "say what would be removed"}},
     .run = command_clean},
    {.name = "analyze",
     .arguments = "FILE...",
     .summary = "what a trace file says: steps, ops, devices, memory, what to do",
     .help =
         "Reads traces of torch.profiler (.json, .json.gz, - for standard input, or "
         "a folder,\n"
         "tar or zip of ranks) and prints where the time goes and what of it can be "
         "saved. A\n"
         "trace in which nothing marks steps counts as one step.\n"
         "\n"
         "  trainglass analyze trace.json.gz\n"
         "  trainglass analyze trace.json.gz --sort cuda_time_total --top 20\n"
         "  trainglass analyze rank0.json rank1.json --json\n"
         "  trainglass analyze trace.json.gz --fail-on 'data > 20 %'\n"
         "\n"
         "--stacks has the backward in the stacks of the forward ops that it belongs "
         "to, as torch's\n"
         "export_stacks has it. --flame and --group stack show it where it ran: on "
         "autograd's\n"
         "thread, or below loss.backward(). With --link-backward each of its ops "
         "stands under the\n"
         "forward op of its sequence number there too, with what autograd calls "
         "around it.\n"
         "\n"
         "--fail-on has the grammar of `run --help`: exit 1 when the whole 95 % "
         "interval lies\n"
         "beyond, 3 when the trace does not tell.\n",
     .flags =
         {{"--top", "K", "ops of each list: 1 to 1000, else 10 (1000 in JSON)"},
          {"--sort", "COLUMN",
           "self, total, count, mean, max, p95, device_total ..., or torch's names"},
          {"--group", "BY",
           "CPU ops by name, shape, module, stack or stack:N (frames)"},
          {"--steps", "A-B", "of these steps (or this one) alone, by their numbers"},
          {"--device", "cpu|cuda", "ops of that side alone"},
          {"--rank", "N", "this rank of a folder alone"},
          {"--fail-on", "EXPR",
           "exit 1 when it holds, as in 'data > 20 %' (repeatable)"},
          {"--stacks", "FILE", "write folded stacks, as torch's export_stacks"},
          {"--stacks-metric", "METRIC",
           "of the stacks: self_cpu_time_total (default) or self_cuda_time_total"},
          {"--flame", "FILE", "write a flame graph for speedscope"},
          {"--html", "FILE",
           "write a report that stands alone, to keep or attach; of several files "
           "one page"},
          {"--link-backward", NULL,
           "the backward stands under the forward ops that it belongs to, everywhere"}},
     .min_arguments = 1,
     .max_arguments = 1 << 20,
     .repeats = 1u << 6 /* --fail-on */,
     .run = command_analyze},
    {.name = "compare",
     .arguments = "BASE OTHER...",
     .summary = "what became slower or faster from one trace or run to others",
     .help =
         "Each is a trace file, a folder of ranks, a result of `analyze --json`, or "
         "a run: its\n"
         "id (the first characters are enough) or its name. The first is the base. "
         "@WINDOW behind\n"
         "it means a stretch: steps a-b, or epoch:n. A change is called one when it "
         "is larger than\n"
         "the spread of the steps explains.\n"
         "\n"
         "  trainglass compare before.json.gz after.json.gz\n"
         "  trainglass compare main.json branch.json --fail-on 'step>5%'\n"
         "  trainglass compare baseline larger-batch          (runs by their names)\n"
         "  trainglass compare 7f3a91@epoch:1 7f3a91@epoch:5\n"
         "\n"
         "A run is read from the server that has it in memory, else from the run "
         "store, which\n"
         "keeps of a run its steps, phases, bottlenecks, memory peaks, devices and "
         "top ops, and of\n"
         "its epochs the steps; what it did not keep is said. Ids stand in "
         "/api/runs.\n"
         "\n"
         "--fail-on looks at changes: step, data, forward, backward, optimizer, "
         "other, idle[.cause],\n"
         "memory, finding.ID. Exit code 1 when the whole 95 % interval of one lies "
         "beyond;\n"
         "of a finding that only one of them has, the other may have as much as is "
         "not told.\n",
     .flags = {{"--top", "K", "changed ops that are listed: 1 to 1000, else 10"},
               {"--rank", "N", "of a folder this rank, else the first"},
               {"--steps", "A-B",
                "of these steps (or this one) alone, by their numbers"},
               {"--fail-on", "EXPR",
                "exit 1 when it holds, as in 'step>5%' (repeatable)"}},
     .settings =
         BIT(OPTION_DIR) | BIT(OPTION_PORT) | BIT(OPTION_TOKEN) | BIT(OPTION_STATE_DIR),
     .min_arguments = 2,
     .max_arguments = 1 << 20,
     .repeats = 1u << 3 /* --fail-on */,
     .run = command_compare},
    {.name = "cut",
     .arguments = "FILE -o OUT",
     .summary = "a smaller trace out of a large one: steps, a time, categories",
     .help =
         "Writes a trace with the events that were asked for, as they stand in FILE, "
         "with names of\n"
         "threads, flows and everything that stands beside the events. Kernels come "
         "with their\n"
         "launch. OUT is compressed when it ends in .gz; - is standard output.\n"
         "\n"
         "  trainglass cut trace.json.gz --steps 5-6 -o two.json.gz\n"
         "  trainglass cut trace.json --from 1200 --to 1450 -o stall.json\n"
         "  trainglass cut trace.json.gz --max 50MB -o ticket.json.gz\n"
         "  zcat trace.json.gz | trainglass cut - --cat kernel,cpu_op -o small.json\n",
     .flags = {{"--steps", "A-B", "these steps, or one, by their numbers"},
               {"--from", "MS", "from there on, in ms since the first event"},
               {"--to", "MS", "up to there"},
               {"--cat", "LIST", "these categories alone: kernel, cpu_op ..."},
               {"--max", "SIZE",
                "at most so large, such as 50MB: the first whole steps that fit"},
               {"-o", "OUT", "the file to be written"}},
     .min_arguments = 1,
     .max_arguments = 1,
     .run = command_cut},
    {.name = "window",
     .arguments = "",
     .summary = "record steps of a running job with torch.profiler, no code changed",
     .help = "Asks the job for a deep window, waits for its trace and says where it "
             "is; the page lists\n"
             "it as a session of its own. The server of the job must run.\n"
             "\n"
             "  trainglass window --steps 10 --shapes --stacks\n"
             "  trainglass window --rank all --memory --json\n"
             "\n"
             "Exits 0 when every trace is there, 3 when a window failed, 4 when none "
             "could be asked for.\n",
     .settings = SHARED | BIT(OPTION_PORT) | BIT(OPTION_TOKEN),
     .flags = {{"--steps", "N", "steps to record: 1 to 1000, else 10"},
               {"--shapes", NULL, "with the shapes of operators' inputs"},
               {"--stacks", NULL, "with Python stacks"},
               {"--modules", NULL, "with the modules that operators ran for"},
               {"--memory", NULL, "with every allocation"},
               {"--session", "ID", "else the newest that has a step"},
               {"--rank", "N|all", "else the lowest; all: at the same step"},
               {"--seconds", "N", "ends it, whatever it has: 1 to 3600, else 60"},
               {"--max-mb", "N", "likewise, at about that size: else 512; 0 never"},
               {"--no-wait", NULL, "only ask"}},
     .run = command_window},
    {.name = "selftest",
     .arguments = "overhead [--] CMD [ARG...]",
     .summary = "what watching costs your own job, measured from outside",
     .help =
         "Runs CMD bare and under `run`, both at the same time on one core each, "
         "changes their cores\n"
         "all the time and compares their steps; first CMD bare against itself, "
         "which shows the\n"
         "method's own error. Prints the cost as seen from outside and as the "
         "product says it of\n"
         "itself (/api/overhead), each with its 95 % interval, and whether they "
         "meet. The server is\n"
         "left out: it is no part of the job. Where two cores cannot be had the runs "
         "come one after\n"
         "the other.\n"
         "\n"
         "CMD is started dozens of times, two at once, and ended by SIGTERM after "
         "some seconds of\n"
         "training: give it a folder that it may spoil, for each run overwrites the "
         "checkpoints of\n"
         "the one before. Two at once need twice the memory, also of a GPU, and no "
         "port of their own;\n"
         "`taskset -c 0 trainglass selftest ...` has one run after the other. Output "
         "is shown only\n"
         "when CMD fails.\n"
         "\n"
         "Steps are the updates of torch's optimizers; another program writes them "
         "itself: it makes\n"
         "$STEPS_OUT.pid when it is warm, and when SIGTERM comes $STEPS_OUT, the "
         "CLOCK_MONOTONIC\n"
         "nanoseconds at which its steps began (int64). Of a command without steps "
         "that ends by\n"
         "itself the whole time is compared.\n"
         "\n"
         "  trainglass selftest overhead -- python train.py --checkpoints "
         "/tmp/spoiled\n"
         "  trainglass selftest overhead --level phases --pairs 20 -- python "
         "train.py\n"
         "\n"
         "It takes pairs until the interval lies on one side of the budget, for at "
         "most 15 minutes.\n"
         "Exits 0 whatever it finds, 4 when there was nothing to compare.\n",
     .settings = PROBE | BIT(OPTION_DIR),
     .flags = {{"--pairs", "N", "so many pairs: 1 to 256, else as many as needed"},
               {"--seconds", "S", "of each pair that are measured: 1 to 600, else 5"}},
     .min_arguments = 2,
     .max_arguments = 1 << 20,
     .stops_at_argument = 2,
     .run = command_selftest},
    {.name = NULL},
};
/* clang-format on */
