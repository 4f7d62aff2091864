/* A directory of checkpoints, which may be one that several hosts share (NFS):
 *
 *   checkpoint-00000012-step3400-1f2e3d4c.rgck        serial, step, op
 *   checkpoint-00000012-step3400-1f2e3d4c.rgck.1      data of another host
 *   checkpoint-00000013-step3500-9a8b7c6d.rgck.part   on its way
 *
 * A file is written completely under its .part name and then sealed: renamed. A
 * file with its final name is complete and counts, in the order of the serials.
 * A .part file does not count, and is removed when a later one is sealed, and
 * so are data files whose checkpoint is gone. Each host writes a file of its
 * own, with the hashes of its pieces at its end; rank 0's host moves these into
 * the head. A directory belongs to one job at a time, and to the job that
 * resumes from it.
 *
 * Threads:   any; nothing is shared.
 * Ownership: lists are the caller's, to free(). */
#ifndef RG_ELASTIC_CHECKPOINT_DIR_H
#define RG_ELASTIC_CHECKPOINT_DIR_H

#include <stdbool.h>

#include "elastic/state/checkpoint.h"

#define RG__CHECKPOINT_NAME_MAX 96

typedef struct rg__checkpoint_name {
    uint64_t serial, step;
    bool is_part;
    char text[RG__CHECKPOINT_NAME_MAX];
} rg__checkpoint_name;

/* The name of a checkpoint's file in its directory. */
void rg__checkpoint_name_of(const rg__checkpoint *c, bool is_part,
                            char text[RG__CHECKPOINT_NAME_MAX]);

/* false: another name. */
bool rg__checkpoint_name_read(const char *text, rg__checkpoint_name *name);

/* Make a directory and sync its name to disk; true also if it exists already.
 * false: errno says why. */
bool rg__checkpoint_make_dir(const char *dir);

/* All names in a directory, the newest first. ERR_NOT_FOUND: there is no such
 * directory. ERR_SYSTEM: it can't be read. */
rg_status rg__checkpoint_list(const char *dir, rg__checkpoint_name **names_p,
                              size_t *count_p);

/* The serial after `newest`, the newest that the job has loaded from here or
 * written here (0: none). ERR_INVALID: the directory has a newer one, which is
 * another job's. ERR_SYSTEM: it can't be written there. */
rg_status rg__checkpoint_next(const char *dir, uint64_t newest,
                              uint64_t *serial_p);

/* ----------------------------------------------------------------- reading */

typedef struct rg__checkpoint_file {
    int fd;
    int other_fd; /* -1: none */
    uint32_t other;
    rg__checkpoint_source source;
} rg__checkpoint_file;

/* ERR_NOT_FOUND: there is no such file. path is borrowed until close. */
rg_status rg__checkpoint_file_open(rg__checkpoint_file *f, const char *path);
void rg__checkpoint_file_close(rg__checkpoint_file *f);

/* ----------------------------------------------------------------- writing */

typedef struct rg__checkpoint_writing {
    const char *dir;
    rg__checkpoint *checkpoint; /* laid out; hashes come by writing */
    const void *const *data;    /* of each piece of the file that is written;
                                   NULL: of one that `fill` copies */
    rg_status (*fill)(void *arg, uint32_t piece, uint64_t at, void *to,
                      size_t n);
    bool (*goes_on)(void *arg); /* asked between chunks; NULL: always */
    void *arg;
} rg__checkpoint_writing;

/* The .part file in three steps: make it, write its pieces and learn their
 * hashes, write the head, without which it is no checkpoint, once the files of
 * other hosts are there. Each syncs to disk. ERR_SYSTEM: it failed;
 * ERR_JOB_ENDED: goes_on returned false. */
rg_status rg__checkpoint_begin(const rg__checkpoint_writing *w);
rg_status rg__checkpoint_put(const rg__checkpoint_writing *w);
rg_status rg__checkpoint_end(const rg__checkpoint_writing *w);

/* Another host's file, with its hashes; its .part file must be there. */
rg_status rg__checkpoint_put_file(const rg__checkpoint_writing *w,
                                  uint32_t file);

/* Give it its final name, sync that too, then remove all but the newest `keep`
 * and older .part files. ERR_INVALID: another job was faster. */
rg_status rg__checkpoint_seal(const char *dir, const rg__checkpoint *c,
                              int keep);

/* Remove the .part file and those of other hosts. */
void rg__checkpoint_drop(const char *dir, const rg__checkpoint *c);

#endif
