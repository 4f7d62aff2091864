#include "tests/bench/collectives/table.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/elements.h"

static const char *transports(void)
{
    const char *named = getenv("REGROUP_TRANSPORTS");
    return named == NULL || *named == '\0' ? "by default" : named;
}

/* How long a task waited for a processor in ten seconds, in percent; -1 where
 * the kernel does not say. */
static double pressure(void)
{
    double percent = -1;
    FILE *file = fopen("/proc/pressure/cpu", "r");
    if (file == NULL)
        return percent;
    if (fscanf(file, "some avg10=%lf", &percent) != 1)
        percent = -1;
    fclose(file);
    return percent;
}

/* Processors that this rank may run on: mpirun may have bound it. */
static int allowed(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

static void print_machine(const bench *b)
{
    double load = 0;
    if (getloadavg(&load, 1) != 1)
        load = -1;
    printf("# %d ranks, hosts: %d, processors: %ld, allowed: %d, load: %.1f, "
           "pressure: %.0f %%\n"
           "# transports: %s; beside: %s\n",
           rg_size(b->ctx), rg_host_count(b->ctx),
           sysconf(_SC_NPROCESSORS_ONLN), allowed(), load, pressure(),
           transports(),
           b->mpi == NULL ? "none, this is not under mpirun" : b->mpi);
}

typedef struct row {
    const work *w;
    const char *memory, *place, *redop;
    char op[24];
    const trial *t, *mpi;        /* mpi: NULL where there is none */
    double algbw, busbw;         /* GB/s */
    double against, mpi_against; /* 0: nothing to hold it against */
    int root;
} row;

static double against(const trial *trials, const trial *t)
{
    double sum = 0;
    for (int i = 0; i < BASES_MAX && t->bases[i] >= 0; i++)
        sum += trials[t->bases[i]].got.p50;
    return sum > 0 ? t->got.p50 / sum : 0;
}

/* The same trials of MPI, held against each other. */
static double mpi_against(const trial *trials, const trial *t)
{
    double sum = 0;
    for (int i = 0; i < BASES_MAX && t->bases[i] >= 0; i++)
        sum += trials[trials[t->bases[i]].beside].got.p50;
    return sum > 0 ? trials[t->beside].got.p50 / sum : 0;
}

static row row_of(const work *w, const char *memory, const trial *trials,
                  const trial *t)
{
    row r = {.w = w, .memory = memory, .t = t};
    snprintf(r.op, sizeof r.op, "%s%s", kind_names[w->kind],
             w->uneven ? "v" : "");
    r.place = w->in_place ? "in" : "out";
    r.redop = kind_reduces(w->kind) ? op_names[w->redop] : "none";
    r.root = kind_has_root(w->kind) ? w->root : -1;
    r.mpi = t->beside < 0 ? NULL : &trials[t->beside];
    r.algbw = (double)work_bytes(w) * t->moves / t->got.p50 / 1e3;
    r.busbw = r.algbw * kind_factor(w->kind, w->n);
    r.against = against(trials, t);
    r.mpi_against = r.mpi != NULL ? mpi_against(trials, t) : 0;
    return r;
}

static bool has_mpi(const bench *b)
{
    return b->mpi != NULL && b->plan->layout != LATE;
}

static void print_against(const bench *b, double ratio)
{
    if (b->plan->layout != ONE && ratio > 0)
        printf(" %7.2f", ratio);
    else if (b->plan->layout != ONE)
        printf(" %7s", "-");
}

static void print_text_beside(const bench *b, const row *r)
{
    const figures *got = &r->t->got;
    if (r->mpi != NULL)
        printf(" | %10.2f %10.2f %6.2f %6.2f %+9.2f", r->mpi->got.p10,
               r->mpi->got.p50, got->p10 / r->mpi->got.p10,
               got->p50 / r->mpi->got.p50, got->p50 - r->mpi->got.p50);
    else
        printf(" | %10s %10s %6s %6s %9s", "-", "-", "-", "-", "-");
    print_against(b, r->mpi_against);
}

static void print_text(const bench *b, const row *r)
{
    const figures *got = &r->t->got;
    printf("%12llu %10llu %4s %5s %4d %-15s %-12s %-5s %-5s %10.2f %10.2f "
           "%7.2f %7.2f %6lld",
           (unsigned long long)work_bytes(r->w),
           (unsigned long long)r->w->count, type_names[r->w->type], r->redop,
           r->root, r->op, r->t->name, r->place, r->memory, got->p10, got->p50,
           r->algbw, r->busbw, (long long)got->wrong);
    print_against(b, r->against);
    if (has_mpi(b))
        print_text_beside(b, r);
    printf("\n");
}

static void print_beside(const row *r)
{
    const figures *got = &r->t->got;
    if (r->mpi == NULL) {
        printf("\"mpi\": null");
        return;
    }
    printf("\"mpi\": {\"p10_us\": %.3f, \"time_us\": %.3f, \"wrong\": %lld, "
           "\"ratio_p10\": %.4f, \"ratio\": %.4f, \"more_us\": %.3f",
           r->mpi->got.p10, r->mpi->got.p50, (long long)r->mpi->got.wrong,
           got->p10 / r->mpi->got.p10, got->p50 / r->mpi->got.p50,
           got->p50 - r->mpi->got.p50);
    if (r->mpi_against > 0)
        printf(", \"against\": %.4f", r->mpi_against);
    printf("}");
}

static void print_json(const bench *b, const row *r)
{
    const figures *got = &r->t->got;
    printf("{\"op\": \"%s\", \"sets\": \"%s\", \"ranks\": %d, \"hosts\": %d, "
           "\"transports\": \"%s\", \"beside\": \"%s\", ",
           r->op, r->t->name, rg_size(b->ctx), rg_host_count(b->ctx),
           transports(), b->mpi == NULL ? "" : b->mpi);
    printf("\"size\": %llu, \"count\": %llu, \"type\": \"%s\", "
           "\"redop\": \"%s\", \"root\": %d, \"place\": \"%s\", "
           "\"memory\": \"%s\", ",
           (unsigned long long)work_bytes(r->w),
           (unsigned long long)r->w->count, type_names[r->w->type], r->redop,
           r->root, r->place, r->memory);
    printf("\"rounds\": %d, \"p10_us\": %.3f, \"time_us\": %.3f, "
           "\"algbw\": %.4f, \"busbw\": %.4f, \"wrong\": %lld, ",
           got->times, got->p10, got->p50, r->algbw, r->busbw,
           (long long)got->wrong);
    if (r->against > 0)
        printf("\"against\": %.4f, ", r->against);
    print_beside(r);
    printf("}\n");
}

void table_begin(const bench *b)
{
    const char *names = b->plan->layout != ONE ? " against" : "";
    if (b->plan->is_json || rg_rank(b->ctx) != 0)
        return;
    print_machine(b);
    printf("# %10s %10s %4s %5s %4s %-15s %-12s %-5s %-5s %10s %10s %7s %7s "
           "%6s%s",
           "size", "count", "type", "redop", "root", "op", "sets", "place",
           "mem", "p10", "time", "algbw", "busbw", "#wrong", names);
    if (has_mpi(b))
        printf(" | %10s %10s %6s %6s %9s%s", "mpi p10", "mpi time", "x p10",
               "x time", "+time", names);
    printf(
        "\n# %10s %10s %4s %5s %4s %-15s %-12s %-5s %-5s %10s %10s %7s %7s\n",
        "(B)", "(elements)", "", "", "", "", "", "", "", "(us)", "(us)",
        "(GB/s)", "(GB/s)");
}

void table_rows(bench *b, const work *w, const char *memory,
                const trial *trials, int n)
{
    if (rg_rank(b->ctx) != 0)
        return;
    for (int i = 0; i < n; i++) {
        const trial *t = &trials[i];
        const row r = row_of(t->n > 0 ? t->works[0] : w, memory, trials, t);
        if (trials[i].by_mpi)
            continue;
        b->busbw += r.busbw;
        b->rows++;
        if (b->plan->is_json)
            print_json(b, &r);
        else
            print_text(b, &r);
    }
    fflush(stdout);
}

void table_end(const bench *b)
{
    if (b->plan->is_json || rg_rank(b->ctx) != 0)
        return;
    printf("# wrong elements: %llu%s\n# average bus bandwidth: %.3f GB/s\n",
           (unsigned long long)b->wrong, b->wrong == 0 ? ", OK" : "",
           b->rows > 0 ? b->busbw / b->rows : 0);
}
