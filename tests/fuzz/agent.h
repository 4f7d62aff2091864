/* The people around the agent that agent.c fuzzes; agent.c says what the
 * letters of steps are. */
#ifndef TESTS_FUZZ_AGENT_H
#define TESTS_FUZZ_AGENT_H

#include "elastic/agent/agent.h"
#include "elastic/agent/base/agent_state.h"
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "tests/fuzz/sim.h"

#define PREFIX "/regroup/v1/j/"
#define HOST   "h1"

/* agent_hands.c: workers and command lines, at the agent's Unix socket. */
void hands_begin(const char *socket_path);
void hands_end(void);
void hands_settle(void); /* hear the agent, answer pings */
void hands_step(char letter, fuzz_input in);

/* agent_peers.c: other agents, by datagrams and connections. One of them is
 * host h2, of the incarnation 0xb2, at the port that peers_port says. */
void peers_begin(void);
void peers_end(void);
void peers_settle(void); /* take calls, prove the key, hear the agent */
void peers_step(char letter, fuzz_input in);
uint32_t peers_port(void);
uint64_t peers_agents_id(void); /* of the agent; 0: it has no record */

/* agent_frames.c: a frame between agents, of which the input says only what
 * matters; returns its bytes, type_p gets its type. */
size_t frames_make(fuzz_input *in, uint32_t *type_p,
                   uint8_t room[RG__PEER_BODY_MAX]);

uint64_t frames_sum(fuzz_input *in); /* of a piece of a commit */
/* A buffer's name, sharded and copied if it begins with #. */
void frames_describe(fuzz_input *in, rg__register *m);

/* agent_fdstore.c: a supervisor, and what it keeps. */
void fdstore_begin(void);
void fdstore_end(void);
void fdstore_settle(void);
void fdstore_agent_is_killed(void); /* what it says from now on is not heard */
/* For an agent that begins now, with what the one before has left. */
rg__fdstore *fdstore_create(void);

#endif
