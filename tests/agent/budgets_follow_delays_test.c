/* The budget for silent hosts follows the longest delay of the last ten
 * minutes, between its least and its most; a new observer begins with the
 * budget that it was given.
 *
 * Covers: delays.c */
#include "elastic/agent/hosts/delays.h"
#include "tests/check.h"

#define FIRST_NS (500 * RG__MS)
#define TURN     RG__DELAYS_TURN_NS

static uint64_t budget_ms(const rg__delays *d, uint64_t now)
{
    return rg__delays_budget(d, now, FIRST_NS) / RG__MS;
}

/* Heartbeats that come in time, ten in a turn. */
static uint64_t calm(rg__delays *d, uint64_t now, int turns)
{
    for (int i = 0; i < 10 * turns; i++)
        rg__delays_note(d, now += TURN / 10, RG__MS);
    return now;
}

int main(void)
{
    rg__delays d = {0};
    uint64_t now = 77 * TURN + 5; /* whatever the clock says at first */
    CHECK_EQ(budget_ms(&d, now), 500);
    rg__delays_note(&d, now, 120 * RG__MS);
    CHECK_EQ(budget_ms(&d, now + TURN - 1), 500);
    rg__delays_note(&d, now, 150 * RG__MS);
    CHECK_EQ(budget_ms(&d, now + TURN - 1), 600);
    /* programs have started, which says nothing of later */
    now = calm(&d, now, 1);
    CHECK_EQ(budget_ms(&d, now), 300);
    rg__delays_note(&d, now, 75 * RG__MS);
    CHECK_EQ(budget_ms(&d, now), 300);
    rg__delays_note(&d, now, 75 * RG__MS + 1);
    CHECK_EQ(budget_ms(&d, now), 350);
    rg__delays_note(&d, now, 150 * RG__MS);
    CHECK_EQ(budget_ms(&d, now), 600);
    CHECK_EQ(rg__delays_worst(&d, now), 150 * RG__MS);

    /* it stands for ten minutes, less the turn that it fell into */
    const uint64_t until = calm(&d, now, RG__DELAYS_TURNS - 1);
    CHECK_EQ(budget_ms(&d, until), 600);
    now = calm(&d, until, 1);
    CHECK_EQ(budget_ms(&d, now), 300);

    rg__delays_note(&d, now, 2900 * RG__MS);
    CHECK_EQ(budget_ms(&d, now), 3000);
    /* nothing is noted meanwhile */
    CHECK_EQ(budget_ms(&d, now + 100 * TURN), 300);

    /* no noise, but a fault */
    now += 100 * TURN;
    rg__delays_note(&d, now, 3001 * RG__MS);
    CHECK_EQ(budget_ms(&d, now), 300);

    /* a new observer sees noise at once */
    rg__delays fresh = {0};
    rg__delays_note(&fresh, now, 200 * RG__MS);
    CHECK_EQ(budget_ms(&fresh, now), 800);
    return 0;
}
