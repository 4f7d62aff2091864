/* Lists of hosts as people write them: -H, a hostfile, or what a discovery
 * script prints. Open MPI's and Horovod's forms are the same to us:
 *
 *   h1:4,user@h2:4,[fd00::1]:2        -H
 *   h1 slots=4     # four workers     a line of a file or of a script
 *   h1:4
 *
 * A host that is named twice has the slots of both.
 *
 * Threads:   any.
 * Ownership: a list owns its hosts; texts are borrowed during the call. */
#ifndef RG_LAUNCH_HOST_LIST_H
#define RG_LAUNCH_HOST_LIST_H

#include "regroup/regroup.h"

#define RG__LISTED_NAME   64  /* as a host's name in a job, with the NUL */
#define RG__LISTED_TARGET 256 /* what --rsh is given */

typedef struct rg__listed_host {
    char name[RG__LISTED_NAME];     /* in the job: h2 of user@h2 */
    char target[RG__LISTED_TARGET]; /* user@h2 */
    int slots;
} rg__listed_host;

typedef struct rg__host_list {
    rg__listed_host *host;
    int n;
} rg__host_list;

/* Add a host; one that is there gets more slots. */
rg_status rg__hosts_add(rg__host_list *list, const char *target, int slots);
/* Add what a text lists; slots is for hosts that name no number. ERR_INVALID:
 * the sentence names the word, and of lines the number. */
rg_status rg__hosts_add_words(rg__host_list *list, const char *text, int slots);
/* where: "hostfile hosts.txt", for sentences. */
rg_status rg__hosts_add_lines(rg__host_list *list, const char *text,
                              const char *where, int slots);
rg_status rg__hosts_add_file(rg__host_list *list, const char *path, int slots);
void rg__hosts_free(rg__host_list *list);

const rg__listed_host *rg__hosts_find(const rg__host_list *list,
                                      const char *name);
int rg__hosts_slots(const rg__host_list *list); /* of all of them */

/* The host of a target, without user and brackets. */
void rg__hosts_address(const char *target, char address[RG__LISTED_TARGET]);

#endif
