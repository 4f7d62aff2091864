/* What libregroup offers to libregroup_mpi besides the public header: visible
 * in the library, and in no installed header. ci/layers has the list. */
#ifndef RG_BASE_INNER_H
#define RG_BASE_INNER_H

#define RG_INNER __attribute__((visibility("default")))

#endif
