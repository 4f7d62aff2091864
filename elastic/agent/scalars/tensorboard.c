/* TensorBoard's event file: records framed as in a TFRecord file, each with an
 * Event as protobuf has it. Of a message of protobuf this needs numbers, text
 * and messages inside it:
 *
 *   record   length (8), its masked CRC32C (4), Event, its masked CRC32C (4)
 *   Event    1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log
 *   summary  1 value { 1 tag, 2 simple_value };  session_log  1 status: start
 *
 * A file that has been written may be open in TensorBoard, so nothing is cut
 * off: a session that starts at a step makes it drop that step and later ones,
 * also of earlier files of the directory. */
#include "elastic/agent/scalars/scalars_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/fail.h"

#define VERSION   "brain.Event:2"
#define VALUE_MAX (RG__SCALAR_NAME + 16)
#define EVENT_MAX (RG__SCALARS_OF_STEP * VALUE_MAX + 64)

enum { VARINT, FIXED64, MESSAGE, FIXED32 = 5 }; /* protobuf's wire types */

typedef struct bytes {
    size_t n;
    char at[EVENT_MAX];
} bytes;

static uint32_t crc32c(const char *data, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    return ~crc;
}

static uint32_t masked(const char *data, size_t n)
{
    const uint32_t crc = crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put_fixed(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        b->at[b->n++] = (char)(value >> 8 * i);
}

static void put_varint(bytes *b, uint64_t value)
{
    for (; value > 127; value >>= 7)
        b->at[b->n++] = (char)(value | 128);
    b->at[b->n++] = (char)value;
}

static void put_key(bytes *b, int field, int type)
{
    put_varint(b, (uint64_t)(field << 3 | type));
}

static void put_message(bytes *b, int field, const char *data, size_t n)
{
    put_key(b, field, MESSAGE);
    put_varint(b, n);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void begin(bytes *b, double seconds, uint64_t step)
{
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    b->n = 0;
    put_key(b, 1, FIXED64);
    put_fixed(b, bits, 8);
    put_key(b, 2, VARINT);
    put_varint(b, step);
}

static void append(rg__sink *board, const bytes *event)
{
    static bytes record;
    record.n = 0;
    put_fixed(&record, event->n, 8);
    put_fixed(&record, masked(record.at, 8), 4);
    memcpy(record.at + record.n, event->at, event->n);
    record.n += event->n;
    put_fixed(&record, masked(event->at, event->n), 4);
    rg__sink_append(board, record.at, record.n);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A session starts at that step. */
void rg__board_cut(rg__sink *board, uint64_t from)
{
    static const char started[] = {1 << 3 | VARINT, 1};
    bytes event;
    begin(&event, now_s(), from);
    put_message(&event, 7, started, sizeof started);
    board->last = from - 1;
    append(board, &event);
}

int rg__board_open(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        rg__fail(RG_ERR_INVALID, "the directory %s can't be made: %s", path,
                 strerror(errno));
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && faccessat(folder, ".", W_OK | X_OK, 0) == 0)
        return folder;
    rg__fail(RG_ERR_INVALID, "metrics can't be written to the directory %s: %s",
             path, strerror(errno));
    if (folder >= 0)
        close(folder);
    return -1;
}

/* A file of its own for each agent, made when there is something to write:
 * TensorBoard reads the files of a directory in the order of their names, and
 * leaves one for good when it has seen the next. */
static void make_file(rg__sink *board, const rg__scalars_out *out,
                      uint64_t step)
{
    char name[RG__NAME_MAX + 64];
    bytes event;
    const double now = now_s();
    snprintf(name, sizeof name, "events.out.tfevents.%017.6f.%s", now,
             out->host);
    board->file = openat(out->board, name,
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    begin(&event, now, 0);
    put_message(&event, 3, VERSION, strlen(VERSION));
    append(board, &event);
    if (board->file >= 0)
        rg__board_cut(board, step);
}

void rg__board_add(rg__sink *board, const rg__scalars_out *out,
                   const rg__scalar *row, int n)
{
    static bytes event, summary;
    bytes value;
    summary.n = 0;
    if (board->file < 0)
        make_file(board, out, row->step);
    if (board->file < 0)
        return;
    for (int i = 0; i < n; i++) {
        const float x = (float)row[i].value;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        value.n = 0;
        put_message(&value, 1, row[i].name, strlen(row[i].name));
        put_key(&value, 2, FIXED32);
        put_fixed(&value, bits, 4);
        put_message(&summary, 1, value.at, value.n);
    }
    begin(&event, (double)row->wall_ms / 1e3, row->step);
    put_message(&event, 5, summary.at, summary.n);
    board->last = row->step;
    append(board, &event);
}
