/* Agents for tests, without etcd and without workers: each has a vault, keys
 * and a listener, all share one loop. A test stands in for the workers that
 * commit and for the leader that decides. Every wait is bounded. */
#ifndef TESTS_AGENT_AGENTS_H
#define TESTS_AGENT_AGENTS_H

#include "elastic/agent/agent.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/checkpoint/checkpoints.h"
#include "elastic/agent/control/control.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/hosts/suspect_parts.h"
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/leaving/leaving_parts.h"
#include "elastic/agent/output/output.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/workers/workers.h"
#include "tests/check.h"

#define DETECT_MS 100

/* An agent of a host "h<id>" with the job's key; listens at 127.0.0.1. */
rg__agent *agent_make(rg__loop *loop, uint64_t id);
/* An agent that waits for others longer than a busy machine may hold them
 * up. */
rg__agent *agent_make_patient(rg__loop *loop, uint64_t id);
void agent_free(rg__agent *a);

/* Run the loop until done(arg) or, as a failed claim, for too long. */
void loop_until(rg__loop *loop, bool (*done)(void *arg), void *arg);

/* The buffer's bytes in a vault slot; mapped until the test ends. */
char *vault_bytes(rg__agent *a, const char *name, int slot);
/* Register a buffer as a worker does. */
void vault_add(rg__agent *a, const char *name, uint64_t bytes);
/* What `count` local ranks do in a commit; bytes depend on id and seed. */
void vault_commit(rg__agent *a, int slot, rg__commit_id id, uint32_t count);
/* Does the vault hold that commit in this slot, byte for byte? */
bool vault_has(rg__agent *a, int slot, rg__commit_id id);

/* A decision of `generation` with this resume commit, to be copied from one to
 * the other. Earlier generations of the lineage: decide_before. */
void decide(rg__agent *to, const rg__agent *from, uint64_t generation,
            rg__commit_id resume);
void decide_before(rg__agent *a, uint64_t generation, rg__commit_id resume);
bool is_copied(void *agent_arg); /* no copy is under way */

/* The newest reason that it wants to publish, "" when there is none. */
const rg__reason *newest_reason(const rg__agent *a);

#endif
