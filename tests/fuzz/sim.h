/* A world without time and network, for code that runs on a loop: the loop's
 * timers fire when the fuzzer says so, HTTP requests are answered by it, and
 * random numbers are the same in every run. sim_loop.c and sim_http.c define
 * what sdk/base/loop.c and elastic/etcd/http.c do, so they are linked in their
 * place; clocks and random numbers are wrapped (SIM_WRAP in CMakeLists.txt).
 *
 * Threads:   one.
 * Ownership: borrowed bytes everywhere.
 */
#ifndef TESTS_FUZZ_SIM_H
#define TESTS_FUZZ_SIM_H

#include <stdbool.h>

#include "sdk/base/loop.h"
#include "tests/fuzz/fuzz.h"

#define SIM_MS UINT64_C(1000000)

/* Begin again: the same time and the same random numbers for every input. */
void sim_begin(void);

/* The clock moves on; what is due fires, a thousand timers at most. loop may be
 * NULL. */
void sim_pass(rg__loop *loop, uint64_t ns);
/* On to the next timer; false: none is set. */
bool sim_fire(rg__loop *loop);
/* Serve what is ready of the watched descriptors until nothing is, or thirty
 * times. */
void sim_serve(rg__loop *loop);

/* What rg__loop_run does instead of waiting; it ends when this returns. */
extern void (*sim_script)(rg__loop *loop);
bool sim_is_stopped(const rg__loop *loop);

/* sim_net.c: this process's address, the only one that can be reached. */
const char *sim_address(void);

/* sim_watch.c: look at the words of all watched workers. */
void sim_watch_look(void);

/* Requests under way, the oldest first. */
typedef enum sim_kind { SIM_UNARY, SIM_STREAM } sim_kind;
typedef struct rg__transfer sim_request;
sim_request *sim_request_first(sim_kind kind); /* NULL: none */
sim_request *sim_request_last(sim_kind kind);
sim_request *sim_request_next(const sim_request *r, sim_kind kind);
uint64_t sim_request_number(const sim_request *r);  /* another for each */
sim_request *sim_request_numbered(uint64_t number); /* NULL: it is gone */
const char *sim_request_path(const sim_request *r); /* "/v3/kv/txn" */
const char *sim_request_body(const sim_request *r);
/* All of them give r up unless it is data that came. */
void sim_answer(sim_request *r, int code, const char *body, size_t n);
void sim_data(sim_request *r, const char *bytes, size_t n);
void sim_break(sim_request *r, const char *why);

#endif
