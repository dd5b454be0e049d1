/* Findings on a terminal: what costs time, what to do, and what a step would take then. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "command/files/analyze.h"
#include "command/terminal.h"
#include "document/document.h"
#include "findings/figure.h"
#include "findings/findings.h"
#include "query/what_if.h"

#define MS 1e6

const char *analyze_digits(char text[ANALYZE_DIGITS_BYTES], double value)
{
    (void)snprintf(text, ANALYZE_DIGITS_BYTES, value >= 999.5 ? "%.0f" : "%.3g", value);
    return text;
}

void analyze_report_what_ifs(const struct bottlenecks_answer *summary, uint32_t columns)
{
    struct what_if told;
    bool any = false;

    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++) {
        char text[256];

        if (!what_if_told(summary, findings_loading_saves(summary),
                          (enum replay_what_if)i, &told))
            continue;
        if (!any)
            puts("\nWhat if");
        any = true;
        (void)snprintf(text, sizeof(text), "%s, a step would take %s to %s ms.",
                       what_if_title((enum replay_what_if)i), DIGITS(told.low_ns / MS),
                       DIGITS(told.high_ns / MS));
        terminal_wrapped("- ", text, 4, columns);
    }
}

/* "2.1 ms per step (12 %), 1.8 to 2.4 ms, measured"; a risk, and what nobody knows the
 * price of, has none. */
static void put_price(const struct finding *finding, char *text, size_t size)
{
    char between[64] = "";

    if (!(finding->ns_per_step > 0)) {
        text[0] = '\0';
        return;
    }
    if (finding->high_ns > finding->low_ns)
        snprintf(between, sizeof(between), ", %s to %s ms",
                 DIGITS(finding->low_ns / MS), DIGITS(finding->high_ns / MS));
    snprintf(text, size, ": %s ms per step (%.0f %%)%s, %s",
             DIGITS(finding->ns_per_step / MS), 100 * finding->share, between,
             finding->estimated ? "estimated" : "measured");
}

/* What was measured, and which step shows it best. */
static void print_evidence(const struct finding *finding, uint32_t columns)
{
    char text[4096] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < finding->evidence_count && used < sizeof(text) - 300;
         i++) {
        struct figure figure;

        figure_of(&finding->evidence[i], &figure);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %.*s",
                                 i > 0 ? "; " : "", figure.name,
                                 figure_length(figure.value), figure.value);
    }
    if (finding->worst_step != NOT_KNOWN)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%sworst step %lld",
                                 used > 0 ? "; " : "", (long long)finding->worst_step);
    if (used > 0)
        terminal_wrapped("", text, 5, columns);
}

/* Between quotes of a shell, as one word. */
static void put_word(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, '\0'}, stdout);
    putchar('\'');
}

/* How to look at that step, to be copied. */
static void print_cut(const struct analysis *analysis, long long step)
{
    char clean[4096];
    struct stat status;

    (void)snprintf(clean, sizeof(clean), "%s", analysis->path);
    terminal_clean(clean);
    if (analysis->file->whole_step || stat(analysis->path, &status) != 0 ||
        !S_ISREG(status.st_mode) || strcmp(analysis->path, clean) != 0)
        return;
    fputs("  The trace of one step:\n  trainglass cut ", stdout);
    put_word(clean);
    printf(" --steps %lld -o step-%lld.json.gz\n", step, step);
}

static void print_finding(uint32_t number, const struct finding *finding,
                          uint32_t columns)
{
    char lead[16], price[128], text[1024];

    snprintf(lead, sizeof(lead), "%u. ", number);
    put_price(finding, price, sizeof(price));
    snprintf(text, sizeof(text), "%s%s", finding->title, price);
    terminal_wrapped(lead, text, 5, columns);
    snprintf(text, sizeof(text), "%s (%s)", finding->sentence, finding->formula);
    terminal_wrapped("", text, 5, columns);
    print_evidence(finding, columns);
    for (uint32_t i = 0; i < finding->advice_count; i++)
        terminal_wrapped("- ", finding->advice[i], 7, columns);
    snprintf(text, sizeof(text), "Wrong if: %s", finding->wrong_if);
    terminal_wrapped("", text, 5, columns);
}

void analyze_report_findings(const struct analysis *analysis, uint32_t columns)
{
    struct findings findings;
    int64_t step = NOT_KNOWN;

    findings_find(&analysis->summary, NULL, &findings);
    if (analysis->summary.head.steps > 0)
        printf("\nWhat costs time%s\n",
               analysis->summary.head.steps == 1 ? ", as far as one step tells" : "");
    for (uint32_t i = 0; i < findings.count; i++) {
        print_finding(i + 1, &findings.list[i], columns);
        if (step == NOT_KNOWN)
            step = findings.list[i].worst_step;
    }
    if (step != NOT_KNOWN)
        print_cut(analysis, (long long)step);
    if (findings.verdict[0] != '\0')
        terminal_wrapped("", findings.verdict, 2, columns);
    else if (findings.count == 0 && analysis->summary.head.steps > 0)
        printf("  nothing that the rules know stands out\n");
    findings_free(&findings);
}
