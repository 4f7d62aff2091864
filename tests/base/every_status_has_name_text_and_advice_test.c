/* The status table: values, names, texts and advice agree, numbers outside of
 * it are answered too, and the last error is the thread's own.
 *
 * Covers: status.c */
#include <pthread.h>

#include "sdk/base/fail.h"
#include "tests/check.h"

typedef struct row {
    rg_status st;
    const char *name;
    rg_advice advice;
} row;

static const row rows[] = {
#define RG_X(name, value, advice, text)                                        \
    {(rg_status)(value), "RG_" #name, RG_ADVICE_##advice},
    RG_STATUS_MAP(RG_X)
#undef RG_X
};
#define ROWS ((int)(sizeof rows / sizeof *rows))

static void *fail_elsewhere(void *arg)
{
    (void)arg;
    CHECK_STR(rg_last_error(), "");
    CHECK_EQ(rg__fail(RG_ERR_STORE, "etcd %d", 3), RG_ERR_STORE);
    CHECK_STR(rg_last_error(), "etcd 3");
    return NULL;
}

int main(void)
{
    for (int i = 0; i < ROWS; i++) {
        CHECK_STR(rg_status_name(rows[i].st), rows[i].name);
        CHECK_EQ(rg_status_advice(rows[i].st), rows[i].advice);
        CHECK(rg_status_text(rows[i].st)[0] != '\0');
        for (int k = 0; k < i; k++)
            CHECK(rows[k].st != rows[i].st &&
                  strcmp(rg_status_text(rows[k].st),
                         rg_status_text(rows[i].st)) != 0);
    }
    CHECK_EQ(RG_OK, 0);
    CHECK_EQ(rg_status_advice(RG_OK), RG_ADVICE_NONE);
    CHECK_EQ(rg_status_advice(RG_ERR_MISMATCH), RG_ADVICE_FIX);
    CHECK_EQ(rg_status_advice(RG_ERR_PEER_LOST), RG_ADVICE_RESTORE);
    CHECK_EQ(rg_status_advice(RG_ERR_HOSTS_CHANGED), RG_ADVICE_RESYNC);
    CHECK_STR(rg_status_text((rg_status)-999), "unknown status");
    CHECK_STR(rg_status_name((rg_status)-999), "unknown");
    CHECK_STR(rg_version(), RG_VERSION);

    CHECK_STR(rg_last_error(), "");
    CHECK_EQ(rg__fail(RG_ERR_INVALID, "rank %d of %s", 3, "four"),
             RG_ERR_INVALID);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_STR(rg_last_error(), "rank 3 of four");

    /* a sentence may quote the former one; a long one is cut, not lost */
    rg__fail(RG_ERR_INVALID, "again: %s", rg_last_error());
    CHECK_STR(rg_last_error(), "again: rank 3 of four");
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    rg__fail(RG_ERR_INVALID, "%s", longer);
    CHECK(strlen(rg_last_error()) > 400);
    return 0;
}
