/* Processes in slots and what they say: from the start to the death, its
 * fence, and the next start. */
#ifndef RG_AGENT_WORKERS_H
#define RG_AGENT_WORKERS_H

#include "elastic/agent/base/agent_state.h"

/* slots.c */
rg_status rg__crew_create(rg__agent *a);
void rg__crew_destroy(rg__agent *a);
rg_status rg__slots_create(rg__agent *a);
void rg__slots_destroy(rg__agent *a);
void rg__slots_start(rg__agent *a);
void rg__slots_finish(rg__agent *a);
void rg__slots_kill(rg__agent *a);
/* A process that a launch has started becomes the slot's; the worker's ends of
 * its output are the caller's. */
rg_status rg__slot_take(rg__slot *s, pid_t child, int out[2], int err[2]);
/* Of the agent; in a child, the limits that we were started with. */
const char *rg__workers_socket(const rg__agent *a);
void rg__workers_limit_descriptors(const rg__agent *a);
void rg__slot_dismiss(rg__slot *s); /* nothing is started there any more */
/* SIGTERM for those that rg_run can't ask to end; a timer's: for those that
 * have not returned from it. */
void rg__slots_ask(rg__agent *a);
void rg__slots_hasten(void *agent_arg);
/* At the agent's end, once they were killed: wait for them, and no longer. */
void rg__slots_await_end(rg__agent *a);
void rg__slots_leave_behind(rg__agent *a);
/* A timer's. */
void rg__slots_end_world(void *agent_arg);
void rg__slots_miss(rg__agent *a); /* the same in a moment */
/* Stop the processes of all slots, or let them go on. */
void rg__slots_pause(rg__agent *a, bool pauses);
/* That launch has ended through no fault of its ranks: how they ended does not
 * count for --max-restarts. */
void rg__slots_excuse(rg__agent *a, uint64_t launch);
/* The first worker has said whether the program is elastic. */
void rg__slots_kind_is_known(rg__agent *a);
/* This slot's worker computes no more, or must not: publish, kill, fence. */
void rg__slot_lost(rg__slot *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The first world that its worker was in has ended before it began. */
void rg__slot_recall(rg__slot *s, uint64_t generation);
/* With all in its process group. */
void rg__slot_kill(const rg__slot *s);
/* The process of a lost worker is gone for good (pidfd). */
void rg__slot_gone(rg__slot *s);
/* Where does its worker, or its child, run? */
void rg__slot_note_group(rg__slot *s, pid_t pid);
/* What the next agent would have to know about it. */
void rg__slot_save(const rg__slot *s);
/* Go on with the slot that an earlier agent had; then, once its worker and
 * output are there, with its process. */
void rg__slot_resume(rg__slot *s);
void rg__slot_resume_child(rg__slot *s);
/* Its loss was found before the job's keys were there: publish it now. */
void rg__slot_publish_loss(rg__slot *s);
/* All that live have said where they stand: end what the dead were in. */
void rg__slots_abort_losses(rg__agent *a);
void rg__slots_on_ended(void *agent_arg, int32_t pid, int32_t status);

/* fence.c: of a worker that is lost. */
bool rg__fence_can_store(const rg__worker *w);
bool rg__fence_is_dumping(const rg__worker *w);
char rg__fence_state(pid_t pid); /* as in `ps`: S, D, Z ..; '?' when gone */

/* guests.c */
void rg__guest_accept(void *agent_arg, int listener, uint32_t events);
void rg__guests_drop(rg__agent *a);

/* workers.c */
/* A connection's first message, of a process of our uid; owns the socket. */
void rg__worker_hello(rg__agent *a, int sock, const void *bytes, size_t n,
                      pid_t pid);
void rg__worker_refuse(rg__agent *a, int sock, const char *why);
rg_status rg__workers_listen(rg__agent *a);
void rg__workers_close(rg__agent *a);
void rg__worker_forget_record(rg__slot *s); /* of the last that has ended */
/* While it is alive: what it has said of a crash of its own. */
void rg__worker_note_crash(rg__slot *s);
void rg__worker_forget(rg__slot *s); /* after its death is known and fenced */
void rg__worker_drain(rg__slot *s);  /* read what it said before it died */
void rg__worker_resume(rg__slot *s); /* of an earlier agent, if there is one */
void rg__worker_drop(const rg__slot *s); /* the next agent need not know it */
void rg__workers_ping(void *agent_arg);

/* deathwatch.c: fn is called on the loop's thread once the word says that the
 * worker is dead, or its page that it is dying. */
typedef void (*rg__watch_fn)(void *arg);
rg_status rg__watch_create(rg__loop *loop, rg__page *page, rg__watch_fn fn,
                           void *arg, rg__watcher **watcher_p);
void rg__watch_destroy(rg__watcher *watcher); /* NULL allowed */

/* set_list.c: ask all workers here for their sets; the answers to that ask are
 * here, or will not come. */
uint32_t rg__set_list_ask(rg__agent *a);
bool rg__set_list_is_here(const rg__agent *a, uint32_t ask);
bool rg__set_list_take(rg__slot *from, const rg__sets_list *m, size_t n);
void rg__set_list_drop(rg__worker *w);
/* The world of that size and the sets as told last, of this generation. */
struct json_t *rg__set_list_json(const rg__agent *a, uint64_t generation,
                                 int size);

/* job_spec.c: a worker has registered all. false: others differ; we leave. */
bool rg__job_spec_take(rg__slot *s, uint64_t registered);
/* Does what runs here, as far as known before, fit the job's? else we leave. */
bool rg__job_spec_fits(rg__agent *a, const rg__kv *spec);

#endif
