/* `regroup doctor --peer`: the way from here to another host. */
#ifndef RG_ELASTIC_DOCTOR_PEER_H
#define RG_ELASTIC_DOCTOR_PEER_H

#include "elastic/cli/cli.h"

/* The exit code. */
int rg__doctor_peer(const rg__cli *cli);

#endif
