/* What was read of a process's output and is not written yet, in memory that
 * outlives the agent that read it. The agent may be killed after any
 * instruction, and the next one goes on from there: no byte of text is lost,
 * and in a file none comes twice. Of output that is not text, bytes 0xff at the
 * end of what the agent was just reading may be lost. On a terminal or in a
 * pipe, what it was just writing may come twice, since nothing tells how much
 * these took.
 *
 * pipe -> ring -> text -> file, terminal or pipe
 *
 * Positions count the bytes that were ever read.
 *
 * Threads:   one. Ownership: the caller's memory, zeroed before its first
 * use. */
#ifndef RG_AGENT_SPOOL_H
#define RG_AGENT_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RG__SPOOL_BYTES    8192 /* a power of two */
#define RG__SPOOL_TEXT_MAX (RG__SPOOL_BYTES + 128)

typedef struct rg__spool {
    uint64_t read;    /* bytes before it are in the ring, or were */
    uint64_t reading; /* as far as a read may have come; 0xff where none has */
    uint64_t printed; /* bytes before it are in the text, or were */
    uint64_t written; /* == printed: nothing of the text is to be written */
    size_t at, end;   /* of the text: written, there */
    int error;        /* of the last write that failed, 0: none has */
    off_t file_bytes; /* of the file before the text came, -1: no file */
    unsigned char ring[RG__SPOOL_BYTES];
    char text[RG__SPOOL_TEXT_MAX];
} rg__spool;

/* As read(2), when less than RG__SPOOL_BYTES are held. */
ssize_t rg__spool_read(rg__spool *sp, int fd);

/* Copy what is held, read and not printed: so many bytes. */
size_t rg__spool_held(const rg__spool *sp, char bytes[RG__SPOOL_BYTES]);

/* Print the first n of the bytes held as this text, 1 to RG__SPOOL_TEXT_MAX
 * bytes, when all that was printed before is written. */
void rg__spool_print(rg__spool *sp, size_t n, const char *text, size_t bytes,
                     int to, bool is_file);

/* Write what is printed; what can't be written ever is dropped, and `error`
 * says why. false: it does not take more now. */
bool rg__spool_write(rg__spool *sp, int to, bool is_file);

/* Is nothing left, held or printed? */
bool rg__spool_is_empty(const rg__spool *sp);

/* Is a text written in part? */
bool rg__spool_is_within(const rg__spool *sp);

/* The first act of the next agent. */
void rg__spool_resume(rg__spool *sp, int to);

#endif
