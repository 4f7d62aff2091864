/* Between the records and their snapshot: a value's JSON into its struct.
 * False: it is not in our form, and there is nothing to free. */
#ifndef RG_MEMBER_RECORDS_PARTS_H
#define RG_MEMBER_RECORDS_PARTS_H

#include <jansson.h>

#include "elastic/member/records.h"

bool rg__meta_read(const json_t *j, rg__meta *meta);
bool rg__host_read(const json_t *j, rg__host_record *host);
bool rg__cur_read(const json_t *j, rg__cur *cur);
/* Its base is in the snapshot. */
bool rg__proposal_read(const json_t *j, const rg__snapshot *snap,
                       rg__proposal *p);
bool rg__mpirun_read(const json_t *j, rg__mpirun *run);
bool rg__reason_read(const json_t *j, rg__reason *r);
bool rg__line_read(const json_t *j, rg__line *line);
bool rg__leader_read(const json_t *j, rg__proposal_host *leader);
bool rg__drain_read(const json_t *j, rg__drain *drain);
bool rg__size_read(const json_t *j, rg__size *size);
bool rg__claim_read(const json_t *j, rg__claim *claim);
bool rg__order_read(const json_t *j, rg__order *order);
bool rg__share_read(const json_t *j, rg__share *share);
bool rg__saved_read(const json_t *j, rg__saved *saved);
bool rg__end_read(const json_t *j, rg__end *end);
bool rg__begun_read(const json_t *j, uint64_t *generation_p);

/* records.c: parts of several records. */
bool rg__id_read(const json_t *j, uint64_t *id_p); /* of an incarnation */
bool rg__name_read(char *to, size_t room, const json_t *j);
bool rg__is_port(json_int_t port);
bool rg__place_read(const json_t *address, const json_t *port,
                    rg__address *address_p, uint32_t *port_p);
rg__cause_kind rg__kind_read(const json_t *j);

/* values.c: what records are made of. */

/* Ids and generations exceed what JSON numbers keep everywhere: 16 hex digits,
 * as in keys. begins: more may stand behind them. */
json_t *rg__hex_json(uint64_t n);
bool rg__hex_read(const json_t *j, uint64_t *n_p);
bool rg__hex_begins(const char *text, uint64_t *n_p);
json_t *rg__commit_json(rg__commit_id id); /* none: null */
bool rg__commit_read(const json_t *j, rg__commit_id *id);
/* A path may be any bytes; JSON takes UTF-8 only. */
json_t *rg__text_json(const char *text);
bool rg__text_read(char *to, size_t room, const json_t *j);
bool rg__text_field(const json_t *j, const char *key, char *to, size_t room);
/* A name of a host or a worker: letters, digits, dots, dashes, underscores.
 * Other characters of a key could not be written into a record again. */
bool rg__name_copy(char *to, size_t room, const char *name);
/* Consumes it. NULL: no memory. Owned by the caller. */
char *rg__json_text(json_t *j);

#endif
