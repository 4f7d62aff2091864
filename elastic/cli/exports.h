/* Variables that travel from here to agents on other hosts. */
#ifndef RG_ELASTIC_EXPORTS_H
#define RG_ELASTIC_EXPORTS_H

#include "elastic/cli/cli.h"
#include "elastic/launch/letter.h"

/* -x, in this process: what it gives a value gets it, for workers here.
 * ERR_INVALID: what it names is not here. A word is a name, or the beginning of
 * names with a `*` behind it. */
rg_status rg__exports_take(const rg__cli *cli);
/* Write "variable" entries: with has_all the user's, then what -x names. */
void rg__exports_write(rg__letter *letter, const rg__cli *cli, bool has_all);

#endif
