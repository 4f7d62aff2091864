/* The leader's part: any agent can have it, by the key all/leader under its
 * lease, whose create_revision is the token that guards every act. The leader
 * mirrors all keys of the job. A look applies the rules of member/plan.c to
 * that copy, which is at one revision, and makes one CAS; whatever happened
 * meanwhile only makes the CAS fail, and the next look sees it. */
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/generation/generation_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/base/waits.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/member/resume.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/least.h"
#include "sdk/base/log.h"

#define LAST_CALL_NS     (20 * RG__MS)
#define OFFER_NS         (10 * RG__MS) /* then it goes on record */
#define AGAIN_NS         (20 * RG__MS)
#define ACK_TIMEOUT_NS   (20000 * RG__MS)
#define FORMING_NS       (1000 * RG__MS) /* such a wait is said */
#define LOST_MAX         1024            /* hosts lost at once */
#define LEAVES_MAX       100 /* hosts told so in one txn; etcd takes 128 */
#define KEEP_GENERATIONS 8   /* proposals and reasons before the newest */

/* -------------------------------------------------------------- competition */

static void on_competed(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    (void)reply; /* the mirror shows which agent won */
    a->leader->is_competing = false;
    rg__agent_has_answer(a, st);
}

static void compete(rg__agent *a)
{
    if (a->leader->is_competing)
        return;
    rg__proposal_host me = {
        .id = a->id, .address = a->address, .port = a->port};
    snprintf(me.name, sizeof me.name, "%s", a->params->host);
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(LEADER), 0);
    rg__job_put(&t, RG__KEY(LEADER), rg__leader_text(&me),
                rg__lease_id(a->lease));
    a->leader->is_competing =
        rg__job_send(&t, on_competed, a, rg__leader_follow) != NULL;
}

/* ---------------------------------------------------------------------- act */

static void on_acted(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    a->leader->acting = NULL;
    if (!rg__agent_has_answer(a, st) || a->leader->whole == NULL)
        return;
    if (rg__mirror_revision(a->leader->whole) != a->leader->acted_on)
        rg__leader_look(a);
    else if (!reply->succeeded)
        rg__timer_set(a->leader->look_timer,
                      AGAIN_NS); /* the mirror is behind */
}

/* It applies only while we lead and nothing has moved on. */
static rg__txn_draft guarded(rg__agent *a)
{
    const rg__snapshot *snap = &a->known;
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(LEADER), snap->leader_token);
    rg__job_if_mod(&t, RG__KEY(CUR), snap->cur.mod_revision);
    return t;
}

static void put_proposal(rg__txn_draft *t, uint64_t generation, char *text)
{
    const rg__cur cur = {.generation = generation, .phase = RG__GEN_PROPOSED};
    rg__failpoint("agent.propose", -1, 0, generation);
    rg__job_put(t, RG__KEY(GEN, generation), text, 0);
    rg__job_put(t, RG__KEY(CUR), rg__cur_text(&cur), 0);
}

static void add_proposal(rg__txn_draft *t, const rg__proposal *p)
{
    if (p->is_awaited) /* a first world, or none */
        rg__job_if_create(t, RG__KEY(BEGUN), 0);
    put_proposal(
        t, p->generation,
        rg__proposal_difference(p, rg__proposal_base(&t->a->known, p)));
}

/* Proposals from `first` on can be read only while their base is there. */
static uint64_t first_base(const rg__agent *a, uint64_t first)
{
    uint64_t least = first;
    for (int i = 0; i < a->known.gens; i++) {
        const rg__proposal *p = &a->known.gen[i];
        if (p->generation >= first && p->base != 0 && p->base < least)
            least = p->base;
    }
    return least;
}

/* As a rule one for each decision. */
static void drop_lines(rg__txn_draft *t)
{
    const rg__snapshot *known = &t->a->known;
    for (int i = 0; i < known->lines; i++)
        if (!rg__resume_needs_line(known, &known->line[i]))
            rg__job_delete(t, RG__KEY(LINE, known->line[i].generation));
}

static uint64_t before(uint64_t generation, uint64_t n)
{
    return generation > n ? generation - n : 0;
}

/* Worlds name the hosts that may hold parts of the resume commit: those since
 * it was made, as far back as decisions are kept. */
static uint64_t first_holders(const rg__line *line)
{
    const uint64_t first = rg__resume_first_world(line);
    const uint64_t oldest = before(line->generation, RG__LINES_KEPT);
    return first > oldest ? first : oldest;
}

/* Acks and fins are of no use once their generation has a successor. */
static void collect_garbage(rg__txn_draft *t, const rg__line *line)
{
    const uint64_t first =
        rg__least(line->prev, before(line->generation, KEEP_GENERATIONS));
    rg__job_delete_before(
        t, RG__KEY_GEN,
        first_base(t->a, rg__least(first, first_holders(line))));
    rg__job_delete_before(t, RG__KEY_REASON, first);
    rg__job_delete_before(t, RG__KEY_FIN, line->generation);
    drop_lines(t);
}

/* No worker enters fn before this key is there: a decision for rank 0's memory
 * compares that it is missing, and one with a commit writes it. */
static void add_begun(rg__txn_draft *t, const rg__line *line)
{
    const bool is_begun = t->a->known.begun != 0;
    if (!is_begun && line->resume.generation == 0)
        rg__job_if_create(t, RG__KEY(BEGUN), 0);
    else if (!is_begun)
        rg__job_put(t, RG__KEY(BEGUN), rg__begun_text(line->resume.generation),
                    0);
}

static void add_decision(rg__txn_draft *t, const rg__plan *plan)
{
    const rg__cur cur = {.generation = plan->line.generation,
                         .phase = RG__GEN_DECIDED};
    rg__line line = plan->line;
    rg__failpoint("agent.decide", -1, line.resume.step, line.generation);
    line.at_ms = rg__wall_ms();
    rg__job_put(t, RG__KEY(CUR), rg__cur_text(&cur), 0);
    rg__job_put(t, RG__KEY(LINE, line.generation), rg__line_text(&line), 0);
    add_begun(t, &line);
    collect_garbage(t, &line);
}

static void add_done(rg__txn_draft *t)
{
    rg__cur cur = t->a->known.cur;
    cur.phase = RG__GEN_DONE;
    rg__failpoint("agent.done", -1, 0, cur.generation);
    rg__job_put(t, RG__KEY(CUR), rg__cur_text(&cur), 0);
}

/* The job ends for every agent that sees the key, this host included. */
__attribute__((format(printf, 3, 4))) static void
add_end(rg__txn_draft *t, int code, const char *format, ...)
{
    rg__end end = {.is_set = true, .code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(end.why, sizeof end.why, format, args);
    va_end(args);
    rg__job_if_create(t, RG__KEY(END), 0);
    rg__job_put(t, RG__KEY(END), rg__end_text(&end), 0);
}

/* As an operator's: it ends with the step that is under way. */
static void add_stop(rg__txn_draft *t)
{
    const rg__end stop = {
        .is_set = true,
        .is_asked = true,
        .code = 128 + 15,
        .why = "stopped: all hosts are to leave, so none could go on"};
    rg__job_put(t, RG__KEY(STOP), rg__end_text(&stop), 0);
}

static void add_give_up(rg__txn_draft *t, const rg__plan *plan)
{
    const int min = t->a->params->min;
    const char *flag = min == t->a->params->max ? "-n" : "--min";
    if (plan->failed != NULL)
        add_end(t, plan->failed->failed_code,
                "%s, and fewer slots are left than %s %d; look at its output, "
                "or raise --max-restarts",
                plan->failed->failed, flag, min);
    else
        add_end(t, RG__EXIT_BELOW_MIN,
                "there have been too few workers (%d, with %s %d) for longer "
                "than --elastic-timeout; add hosts or lower %s",
                plan->alive, flag, min, flag);
}

static void add_leave_of(rg__txn_draft *t, const char *host,
                         const rg__plan *plan)
{
    rg__drain leave = {.code = RG__EXIT_BELOW_MIN};
    snprintf(leave.why, sizeof leave.why,
             "the newest commits are on %.60s, not heard of for "
             "--elastic-timeout and maybe training; start this host again when "
             "they are reached, or with --replace-job, from a checkpoint, if "
             "they are gone for good",
             plan->awaited);
    rg__job_put(t, RG__KEY(DRAIN, 0, host), rg__drain_text(&leave), 0);
}

static void add_refusal(rg__txn_draft *t, const rg__plan *plan)
{
    rg__drain leave = {.code = RG__EXIT_USAGE};
    snprintf(leave.why, sizeof leave.why,
             "host %.40s has this host's address, %.45s, so mpirun can't tell "
             "them apart; give this one its own (--advertise), or that one "
             "more slots",
             plan->twin, plan->refused->address.text);
    rg__job_put(t, RG__KEY(DRAIN, 0, plan->refused->name),
                rg__drain_text(&leave), 0);
}

/* Each host that is here is told to leave, as many at a time as etcd takes,
 * this one last; a world that may still train elsewhere is told nothing. */
static void add_leave(rg__txn_draft *t, const rg__plan *plan)
{
    const rg__agent *a = t->a;
    int told = 0;
    for (int i = 0; i < a->known.hosts && told < LEAVES_MAX; i++) {
        const rg__host_record *host = &a->known.host[i];
        if (host->is_gone || host->id == a->id ||
            !rg__plan_is_here(&a->known, host->id) ||
            rg__snapshot_is_told_to_leave(&a->known, host->name))
            continue;
        add_leave_of(t, host->name, plan);
        told++;
    }
    if (told < LEAVES_MAX)
        add_leave_of(t, a->params->host, plan);
}

static bool have_one_address(const rg__seat *one, const rg__seat *other)
{
    return one->host != other->host &&
           strcmp(one->address.text, other->address.text) == 0;
}

/* A seat whose address an earlier one on another host has; NULL: there is none,
 * as an mpirun needs it. Only in a first launch: later ones have no seat on the
 * newer host (RG__PLAN_REFUSE). */
static const rg__seat *find_twin(const rg__mpirun *run,
                                 const rg__seat **other_p)
{
    for (int r = 1; r < run->size; r++) {
        const rg__seat *seat = &run->seat[r];
        if (seat->host == seat[-1].host)
            continue;
        for (*other_p = run->seat; *other_p < seat; ++*other_p)
            if (have_one_address(seat, *other_p))
                return seat;
    }
    return NULL;
}

static void add_launch(rg__txn_draft *t, const rg__plan *plan)
{
    const rg__seat *other,
        *seat = plan->launch.is_over ? NULL : find_twin(&plan->launch, &other);
    if (seat != NULL) {
        add_end(t, RG__EXIT_USAGE,
                "hosts %s and %s have one address, %s, by which mpirun can't "
                "tell them apart; make them one host with more slots, or give "
                "each an address of its own (--advertise)",
                other->name, seat->name, seat->address.text);
        return;
    }
    rg__job_if_mod(t, RG__KEY(MPIRUN), t->a->known.mpirun.mod_revision);
    rg__job_put(t, RG__KEY(MPIRUN), rg__mpirun_text(&plan->launch), 0);
}

static void add_act(rg__txn_draft *t, const rg__plan *plan)
{
    switch (plan->kind) {
    case RG__PLAN_WAIT:
        break;
    case RG__PLAN_PROPOSE:
        add_proposal(t, &plan->proposal);
        break;
    case RG__PLAN_DECIDE:
        add_decision(t, plan);
        break;
    case RG__PLAN_DONE:
        add_done(t);
        break;
    case RG__PLAN_STATE_LOST:
        add_end(t, RG__EXIT_STATE,
                "no commit is whole any more: it was damaged, or the hosts "
                "that held it are gone; start the job again, from its newest "
                "checkpoint if it saves some");
        break;
    case RG__PLAN_STOP:
        add_stop(t);
        break;
    case RG__PLAN_GIVE_UP:
        add_give_up(t, plan);
        break;
    case RG__PLAN_LEAVE:
        add_leave(t, plan);
        break;
    case RG__PLAN_REFUSE:
        add_refusal(t, plan);
        break;
    case RG__PLAN_LAUNCH:
        add_launch(t, plan);
        break;
    case RG__PLAN_LAUNCH_FAILED:
        add_end(t, plan->code != 0 ? plan->code : RG__EXIT_SYSTEM,
                "the last launches formed no world, the newest because %s; "
                "look at the lines of mpirun and of the program above",
                plan->cause);
        break;
    case RG__PLAN_STUCK:
        add_end(t, plan->code != 0 ? plan->code : RG__EXIT_SYSTEM,
                "%d launches have ended at step %llu, the newest since %.80s; "
                "look at the program's output, or raise --max-restarts",
                plan->deaths, (unsigned long long)plan->line.resume.step,
                plan->cause);
        break;
    }
}

static void say_awaited(rg__agent *a, const rg__plan *plan)
{
    const bool is_any = plan->awaited[0] != '\0';
    if (is_any && plan->awaits_parts)
        rg__wait_begin(a, RG__WAIT_PARTS, 0,
                       "hosts that hold parts of the newest commits: %.160s",
                       plan->awaited);
    else
        rg__wait_end(a, RG__WAIT_PARTS, 0);
    if (is_any && !plan->awaits_parts)
        rg__wait_begin(a, RG__WAIT_WORLD, 0,
                       "hosts that hold the newest commits and may still be "
                       "training: %.160s",
                       plan->awaited);
    else
        rg__wait_end(a, RG__WAIT_WORLD, 0);
    if (plan->unswept[0] != '\0')
        rg__wait_begin(a, RG__WAIT_SWEEP, 0, "the end of launch %llu on %.160s",
                       (unsigned long long)a->known.mpirun.number,
                       plan->unswept);
    else
        rg__wait_end(a, RG__WAIT_SWEEP, 0);
}

static void tell_forming(const rg__plan *plan, int min, uint64_t seconds)
{
    const int missing = plan->wanted - plan->alive;
    const char *plural = rg__plural(missing);
    if (plan->alive < min && min >= plan->wanted && missing == 1)
        rg__tell("waiting for 1 more worker, starts when it is there");
    else if (plan->alive < min && min >= plan->wanted)
        rg__tell("waiting for %d more workers, starts when all %d are there",
                 missing, plan->wanted);
    else if (plan->alive < min)
        rg__tell("waiting for %d more worker%s, starts in %d s, or later when "
                 "--min %d are there",
                 missing, plural, (int)seconds, min);
    else
        rg__tell("waiting for %d more worker%s, starts in %d s", missing,
                 plural, (int)seconds);
}

/* The first world waits for more workers, which would look as if it hung. After
 * how many ns to log that; 0: it is logged, or needn't be. */
static uint64_t say_forming(rg__agent *a, const rg__plan *plan)
{
    const uint64_t since = a->leader->clock.forming_ns, now = rg__now_ns();
    const uint64_t most = a->params->user.start_timeout_ms * RG__MS;
    if (plan->wanted == 0)
        a->leader->forming_said = 0;
    if (plan->kind != RG__PLAN_WAIT || since == 0 ||
        plan->alive >= plan->wanted)
        return 0;
    const uint64_t waited = now - since;
    if (waited < FORMING_NS)
        return FORMING_NS - waited;
    if (waited >= most || a->leader->forming_said == plan->alive + 1)
        return 0;
    a->leader->forming_said = plan->alive + 1;
    tell_forming(plan, a->params->min, (most - waited) / (1000 * RG__MS));
    return 0;
}

static void wait_on(rg__agent *a, const rg__plan *plan)
{
    const uint64_t say_ns = say_forming(a, plan);
    uint64_t again_ns = plan->look_again_ns;
    if (say_ns != 0 && (again_ns == 0 || say_ns < again_ns))
        again_ns = say_ns;
    if (again_ns != 0)
        rg__timer_set(a->leader->look_timer, again_ns);
}

static void look_again(rg__agent *a)
{
    rg__leader_look(a);
}

/* An offer that all have acked goes on record with its decision, and any other
 * when it is time, or something else is to follow. */
static void add_offered(rg__txn_draft *t, const rg__plan *plan)
{
    const uint64_t generation = t->a->life.offered;
    char *text = strdup(t->a->offer.text);
    if (plan->kind != RG__PLAN_DECIDE) {
        put_proposal(t, generation, text);
        return;
    }
    rg__job_put(t, RG__KEY(GEN, generation), text, 0);
    add_decision(t, plan);
}

static void send_act(rg__agent *a, const rg__plan *plan, bool is_offered)
{
    rg__txn_draft t = guarded(a);
    if (is_offered)
        add_offered(&t, plan);
    else
        add_act(&t, plan);
    a->leader->acted_on = rg__mirror_revision(a->leader->whole);
    a->leader->acting = rg__job_send(&t, on_acted, a, look_again);
    a->leader->expected = (rg__commit_id){0};
    if (is_offered && plan->kind == RG__PLAN_DECIDE && plan->line.copies == 0) {
        a->leader->expected = plan->line.resume;
        rg__timer_set(a->leader->expect_timer, 0); /* once it is sent */
    }
}

/* How long the offer may remain just that; 0: no longer, or there is none. */
static uint64_t offer_left_ns(const rg__agent *a, const rg__plan *plan)
{
    const uint64_t age = rg__now_ns() - a->offer.since_ns;
    return rg__view_is_offered(a, &a->known) && plan->kind == RG__PLAN_WAIT &&
                   age < OFFER_NS
               ? OFFER_NS - age
               : 0;
}

static void act(rg__agent *a, const rg__plan *plan)
{
    const bool is_offered = rg__view_is_offered(a, &a->known);
    const uint64_t left_ns = offer_left_ns(a, plan);
    say_awaited(a, plan);
    if (plan->ends != 0 && !rg__suspect_has_spoken(a, plan->ends)) {
        rg__suspect_spoke(a, plan->ends);
        rg__publish_reason(a, plan->ends, NULL, plan->cause);
    }
    if (left_ns != 0)
        rg__timer_set(a->leader->look_timer, left_ns);
    else if (plan->kind == RG__PLAN_WAIT && !is_offered)
        wait_on(a, plan);
    else if (plan->kind == RG__PLAN_PROPOSE && !is_offered &&
             rg__offer_make(a, &plan->proposal))
        a->leader->has_offered = true;
    else
        send_act(a, plan, is_offered);
}

/* --------------------------------------------------------------------- look */

/* Read what the mirror holds. With many hosts that takes milliseconds, and
 * their acks come one by one: then every other look is left out. */
static void read_known(rg__agent *a)
{
    const uint64_t begin = rg__now_ns();
    if (rg__view_read(a, a->leader->whole, &a->known) == RG_OK)
        rg__suspect_note(a, &a->known);
    rg__publish_lay(a);
    rg__deaths_lay(a);
    a->leader->is_known_old = false;
    a->leader->read_next_ns = rg__now_ns() + 2 * (rg__now_ns() - begin);
    rg__beat_follow(a);
}

static void follow_offer(rg__agent *a)
{
    if (!a->leader->has_offered)
        return;
    a->leader->has_offered = false;
    read_known(a);
    rg__timer_set(a->leader->look_timer, OFFER_NS);
    a->on->offered(a);
}

/* Every act is guarded by the token and by `cur`: what the mirror does not show
 * yet can only make an act fail, or be the same as what happens right after.
 * While etcd is away nothing is planned, and no wait for others runs. Nothing
 * is planned either until the mirror shows what this host has published: that
 * record is no longer laid over the keys, and a mirror that lags behind it
 * would show living members as dead. */
static bool may_look(const rg__agent *a)
{
    return a->leader->whole != NULL && rg__mirror_is_listed(a->leader->whole) &&
           !rg__life_is_ending(a) && a->leader->acting == NULL &&
           a->leader->away_ns == 0 && rg__etcd_is_up(a->etcd) &&
           rg__mirror_revision(a->leader->whole) >=
               a->publication->host_revision;
}

/* So many take no longer than a fetch, which takes a ns for each byte; a step
 * takes what it takes here, if any has ended. */
static uint64_t count_short_steps(const rg__agent *a)
{
    uint64_t took = 0, bytes = 0;
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].w.page != NULL) {
            const uint64_t ns = atomic_load(&a->slot[i].w.page->step_took_ns);
            took = ns > took ? ns : took;
        }
    for (int i = 0; i < a->store->buffers; i++)
        if (!a->store->buffer[i].is_sharded)
            bytes += a->store->buffer[i].bytes;
    return took != 0 ? bytes / took : 0;
}

void rg__leader_look(void *agent_arg)
{
    rg__agent *a = agent_arg;
    if (!may_look(a))
        return;
    if (a->leader->is_known_old)
        read_known(a);
    if (a->known.leader != a->id)
        return;
    uint64_t lost[LOST_MAX], no_etcd[LOST_MAX], again_ns = 0;
    const rg__size *size = &a->known.size; /* of the revision that is planned */
    const bool is_scaled = size->mod_revision != 0;
    const rg__plan_config config = {
        .min = is_scaled ? size->min : a->params->min,
        .max = is_scaled ? size->max : a->params->max,
        .start_timeout_ns = a->params->user.start_timeout_ms * RG__MS,
        .elastic_timeout_ns = a->params->user.elastic_timeout_ms * RG__MS,
        .last_call_ns = LAST_CALL_NS,
        .ack_timeout_ns = ACK_TIMEOUT_NS,
        .newcomer_timeout_ns = rg__patience_ns(a->params) * RG__SILENT_BUDGETS,
        .comeback_ns = a->params->user.grace_ms * RG__MS,
        .lost = lost,
        .losts = rg__suspect_lost(a, lost, LOST_MAX, &again_ns),
        .repeats = count_short_steps(a),
        .is_mpi = a->params->is_mpi,
        .is_ulfm = a->params->is_ulfm,
        .launch_timeout_ns = a->params->user.launch_timeout_ms * RG__MS,
        .max_deaths = a->params->user.max_restarts,
        .no_etcd = no_etcd,
        .no_etcds = rg__suspect_no_etcd(a, no_etcd, LOST_MAX)};
    if (again_ns != 0)
        rg__suspect_look_in(a, again_ns);
    rg__suspect_planned_on(a, no_etcd, config.no_etcds);
    rg__plan plan;
    if (rg__plan_make(&a->known, &config, rg__now_ns(), &a->leader->clock,
                      &plan) != RG_OK) { /* no memory */
        rg__job_owe(a, look_again);
        return;
    }
    act(a, &plan);
    rg__acks_mind(a);
    rg__plan_free(&plan);
    follow_offer(a);
}

void rg__leader_has_news(rg__agent *a)
{
    a->leader->is_known_old = true;
    const uint64_t now = rg__now_ns();
    if (now >= a->leader->read_next_ns)
        rg__leader_look(a);
    else
        rg__timer_set(a->leader->look_timer, a->leader->read_next_ns - now);
}

static void on_whole(void *arg, int64_t revision, bool wiped)
{
    (void)revision;
    if (!wiped) /* else the narrow mirror says so too, and ends the agent */
        rg__leader_has_news(arg);
}

/* A leader sees all keys of the job; an agent that stops leading drops them. */
static void see_the_whole(rg__agent *a)
{
    if (rg__view_i_lead(a) == (a->leader->whole != NULL))
        return;
    rg__wait_end(a, RG__WAIT_WORLD, 0);
    rg__wait_end(a, RG__WAIT_PARTS, 0);
    rg__wait_end(a, RG__WAIT_SWEEP, 0);
    if (a->leader->whole != NULL) {
        rg__mirror_destroy(a->leader->whole);
        a->leader->whole = NULL;
        rg__deaths_forget(a);
        rg__snapshot_free(&a->known);
        rg__acks_mind(a);
        return;
    }
    rg__plan_clock_reset(&a->leader->clock);
    if (rg__mirror_create(a->etcd, a->prefix, a->prefix_end, NULL, on_whole, a,
                          &a->leader->whole) != RG_OK)
        rg__agent_leave(a, RG__EXIT_SYSTEM, "%s", rg_last_error());
}

void rg__leader_follow(rg__agent *a)
{
    if (a->mirror == NULL || !rg__mirror_is_listed(a->mirror) ||
        rg__life_is_ending(a))
        return;
    if (a->view.leader == 0)
        compete(a);
    see_the_whole(a);
}

bool rg__leader_sees_all(const rg__agent *a)
{
    return a->leader->whole != NULL && rg__mirror_is_listed(a->leader->whole);
}

void rg__leader_etcd_is_away(rg__agent *a)
{
    a->leader->away_ns = rg__now_ns();
    a->publication->was_away = true;
}

/* Time without etcd does not count as a wait for others. */
void rg__leader_etcd_is_back(rg__agent *a)
{
    rg__plan_leave_out(&a->leader->clock, a->leader->away_ns, rg__now_ns());
    a->leader->away_ns = 0;
}

void rg__leader_close(rg__agent *a)
{
    if (a->leader != NULL)
        rg__mirror_destroy(a->leader->whole);
}
