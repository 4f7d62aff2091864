/* The process that writes metrics down. Steps are in rising order: writing a
 * step replaces it and all later ones in the file. */
#include "elastic/agent/scalars/scalars_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "elastic/agent/base/file_writer.h"
#include "sdk/base/log.h"

void rg__sink_append(rg__sink *sink, const char *bytes, size_t n)
{
    if (sink->file >= 0 && rg__put_at(sink->file, bytes, n, sink->end)) {
        sink->end += (off_t)n;
        return;
    }
    rg__log(RG__WARN, "agent",
            "metrics in %s end before the job: the file can't be written any "
            "more: %s",
            sink->path, strerror(errno));
    if (sink->file >= 0 && ftruncate(sink->file, sink->end) != 0)
        rg__log(RG__WARN, "agent", "its end can't be taken back either: %s",
                strerror(errno));
    close(sink->file);
    sink->file = -1;
}

static void cut(rg__sink *csv, rg__sink *board, uint64_t from)
{
    if (csv->file >= 0 && csv->last >= from)
        rg__csv_cut(csv, from);
    if (board->file >= 0 && board->last >= from)
        rg__board_cut(board, from);
}

/* The writer of an agent that was killed may still be writing the file. */
int rg__scalars_write(int sock, const void *arg)
{
    static rg__scalar row[RG__SCALARS_OF_STEP];
    const rg__scalars_out *out = arg;
    rg__sink csv = {.file = out->csv, .path = out->csv_path};
    rg__sink board = {.file = -1, .path = out->board_path};
    bool has_board = out->board >= 0;
    size_t got;
    if (csv.file >= 0 && flock(csv.file, LOCK_EX) == 0)
        rg__csv_cut(&csv, UINT64_MAX);
    while ((got = rg__writer_next(sock, row, sizeof row)) > 0) {
        cut(&csv, &board, row->step + (row->count == 0));
        if (row->count == 0)
            continue;
        if (csv.file >= 0)
            rg__csv_add(&csv, row, (int)row->count);
        if (has_board)
            rg__board_add(&board, out, row, (int)row->count);
        has_board = has_board && board.file >= 0;
    }
    return 0;
}
