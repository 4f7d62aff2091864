/* Flags of other launchers that Regroup has no flag for. */
#ifndef RG_CLI_FOREIGN_H
#define RG_CLI_FOREIGN_H

/* What Regroup does instead of that flag (its name without dashes, '_' as '-'),
 * as the rest of a sentence; NULL: we don't know that flag. */
const char *rg__foreign_flag(const char *name);

#endif
