/* The vault of this host, rg_alloc segments, and commits from host to host. */
#ifndef RG_AGENT_VAULTS_H
#define RG_AGENT_VAULTS_H

#include "elastic/agent/base/agent_state.h"

typedef struct rg__vault_buffer { /* a registered buffer's room in the vault */
    char name[RG__BUFFER_NAME_MAX];
    uint64_t bytes;
    uint64_t place; /* where its room begins in the vault's memory */
    uint32_t slots; /* of the vault, that it has room for */
    bool is_sharded, is_local;
    uint32_t replicas;
    uint64_t align;
    uint64_t by;   /* a bit for each slot whose process has registered it with
                      this agent */
    bool is_first; /* the first worker at the door had registered it */
} rg__vault_buffer;

typedef struct rg__vault_segment { /* rg_alloc memory */
    rg__member_id owner;
    uint32_t id;
    uint64_t bytes;
    int fd;
} rg__vault_segment;

/* Copies of the resume commit that other hosts have fetched from here. */
typedef struct rg__served {
    uint64_t generation;
    int sent, stored; /* of which the sink has said so */
    uint64_t at_ns;
} rg__served;

struct rg__store {
    rg__vault *vault;
    int fd;
    rg__vault_buffer *buffer;
    rg__vault_segment *segment;
    int buffers, segments;
    rg__served served;
};

/* vault.c */
bool rg__vault_has_shards(const rg__agent *a);
rg_status rg__store_create(rg__agent *a); /* then the vault in it: */
rg_status rg__vault_create(rg__agent *a);
uint64_t rg__vault_newest_step(const rg__agent *a); /* that lies here whole */
void rg__vault_destroy(rg__agent *a);
void rg__vault_register(rg__slot *s, const rg__register *m);
void rg__vault_unregister(rg__slot *s); /* a process that has none yet */
/* The buffer of that description, made if it is not there. */
rg_status rg__vault_room(rg__agent *a, const rg__register *m, int *index_p);
void rg__vault_describe(const rg__vault_buffer *b, rg__register *m);
/* Bytes [*begin_p, *end_p) of a sharded buffer, where shard i of count lies; of
 * a local one no more than the head of its cell. */
void rg__vault_shard_place(const rg__vault_buffer *b, uint32_t i,
                           uint32_t count, size_t *begin_p, size_t *end_p);
/* Where the buffer's byte `at` of a vault slot lies in the vault's memory. */
off_t rg__vault_at(const rg__vault_buffer *b, int vault_slot, size_t at);
/* Bytes in a cell at that place of a vault slot; never more than fit there. */
uint64_t rg__vault_cell_bytes(const rg__agent *a, const rg__vault_buffer *b,
                              int vault_slot, size_t begin);
/* May a buffer have pages for so much from that place of the vault's memory on?
 * Those that are there are taken already. ERR_MEMORY. */
rg_status rg__vault_check_more(const rg__agent *a, const char *name,
                               uint64_t place, uint64_t bytes);
void rg__vault_alloc(rg__slot *s, const rg__segment *m);
void rg__vault_free(rg__slot *s, uint32_t id);
void rg__vault_drop_owner(rg__agent *a, rg__member_id owner);
/* Show all of them to a worker that has just met us. */
void rg__vault_show_segments(rg__slot *s);
/* What lies here of which commits; the shards are the caller's to free. */
int rg__vault_held(const rg__agent *a, rg__held held[RG__VAULT_SLOTS]);
uint64_t rg__vault_bytes(const rg__agent *a);
uint64_t rg__vault_shard_bytes(const rg__agent *a);
/* What workers here have registered as local, in all slots of the vault. */
uint64_t rg__vault_local_bytes(const rg__agent *a);
uint32_t rg__vault_slots(const rg__agent *a); /* where a buffer has most */

/* replication.c */
rg_status rg__replication_create(rg__agent *a);
void rg__replication_destroy(rg__agent *a);
/* A generation is decided: this host's shards go to its next hosts. */
void rg__replication_begin(rg__agent *a, const rg__proposal *p);
/* A worker says that a commit counts. */
void rg__replication_committed(rg__agent *a);
/* peers.c: another agent's shards come. */
bool rg__replication_serve(rg__agent *a, rg__connection *c, const void *body,
                           size_t n);

/* fetch.c. A decision was made: true when its resume commit must come from
 * another host first; then rg__generation_pass_on follows, or a reason. */
bool rg__fetch_begin(rg__agent *a, const rg__line *line);
void rg__fetch_cancel(rg__agent *a);
/* The next proposal must wait until what is decided has been passed on. */
bool rg__fetch_holds(const rg__agent *a, const rg__proposal *next);
/* peers.c: another agent asks for a commit. */
bool rg__fetch_serve(rg__agent *a, rg__connection *c, const void *body,
                     size_t n);

#endif
