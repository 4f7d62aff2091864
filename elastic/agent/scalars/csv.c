/* The CSV: a line for each metric of a step. Between writes its lines are
 * whole; a half line of a killed writer is removed by the next one. */
#include "elastic/agent/scalars/scalars_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "elastic/agent/base/file_writer.h"
#include "sdk/base/fail.h"

#define HEAD     "step,generation,time,metric,value\n"
#define LINE_MAX 192

static bool is_ours(int file)
{
    char head[sizeof HEAD];
    const ssize_t n = pread(file, head, strlen(HEAD), 0);
    return n == 0 ? rg__put_at(file, HEAD, strlen(HEAD), 0)
                  : n == (ssize_t)strlen(HEAD) &&
                        memcmp(head, HEAD, strlen(HEAD)) == 0;
}

int rg__csv_open(const char *path, bool is_first)
{
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    errno = file < 0 ? errno : 0;
    if (file >= 0 && is_first && flock(file, LOCK_EX | LOCK_NB) != 0)
        rg__fail(RG_ERR_INVALID, "another job writes metrics to %s", path);
    else if (file >= 0 && is_ours(file))
        return file;
    else
        rg__fail(RG_ERR_INVALID, "metrics can't be written to %s: %s", path,
                 errno != 0
                     ? strerror(errno)
                     : "it is not a CSV file of metrics; name another file");
    if (file >= 0)
        close(file);
    return -1;
}

void rg__csv_cut(rg__sink *csv, uint64_t from)
{
    FILE *in = fdopen(dup(csv->file), "r");
    char *line = NULL, *digits_end;
    size_t room = 0;
    ssize_t n;
    csv->end = lseek(csv->file, strlen(HEAD), SEEK_SET);
    csv->last = 0;
    while (in != NULL && (n = getline(&line, &room, in)) > 0 &&
           line[n - 1] == '\n') {
        const uint64_t step = strtoull(line, &digits_end, 10);
        if (*digits_end != ',' || step >= from || step < csv->last)
            break;
        csv->last = step;
        csv->end += n;
    }
    free(line);
    if (in != NULL)
        fclose(in);
    if (ftruncate(csv->file, csv->end) != 0)
        rg__sink_append(csv, "", 0);
}

/* With no more digits than it takes to read the same number again. */
static int put_number(char *to, size_t room, double value)
{
    int n = 0;
    for (int digits = 6; digits <= 17; digits++) {
        n = snprintf(to, room, "%.*g\n", digits, value);
        if (strtod(to, NULL) == value || value != value)
            break;
    }
    return n;
}

void rg__csv_add(rg__sink *csv, const rg__scalar *row, int n)
{
    static char text[RG__SCALARS_OF_STEP * LINE_MAX];
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(
            text + used, LINE_MAX,
            "%" PRIu64 ",%" PRIu32 ",%" PRIu64 ".%03u,%s,", row[i].step,
            row[i].generation, row[i].wall_ms / 1000,
            (unsigned)(row[i].wall_ms % 1000), row[i].name);
        used += (size_t)put_number(text + used, 40, row[i].value);
    }
    csv->last = row->step;
    rg__sink_append(csv, text, used);
}
