/* The MPIs that launches can be of. What differs between them is data here, and
 * nowhere else. */
#ifndef RG_AGENT_FLAVOUR_H
#define RG_AGENT_FLAVOUR_H

#include <stdbool.h>

#define RG__FLAVOURS       3
#define RG__FLAVOURS_ALL   ((1u << RG__FLAVOURS) - 1)
#define RG__FLAVOUR_PLACES 4 /* at most, of one */

/* A variable of its, and a directory in which a launch's own one is made for
 * the files that a killed MPI leaves behind. */
typedef struct rg__flavour_place {
    const char *in, *variable;
} rg__flavour_place;

/* Lists end with NULL, or an empty place. */
typedef struct rg__flavour {
    const char *name;             /* in sentences */
    const char *ours;             /* in the names of our libraries */
    const char *const *libraries; /* of its programs, as their names begin */
    const char *const *commands;  /* its mpirun, where none is named */
    const char *const *versions;  /* in what that says to --version */
    const char *const *flags;     /* so that we start its daemons; "@" at the
                                     beginning stands for our program */
    const char *const *variables; /* NAME=VALUE, for the same */
    const char *const *ulfm; /* flags with which ranks outlive others; NULL: it
                                can't */
    const char *hosts;   /* the hosts are listed after this word, in the order
                          of the ranks; NULL: each run of ranks on a host is
                          a program of its own, after its --host */
    bool awaits_daemons; /* a launcher that ends before its daemon has called
                            mpirun has failed */
    bool aborts_by_kill; /* MPI_Abort may kill any rank before mpirun ends with
                            the code */
    int broken_code;     /* of ranks whose MPI has lost its daemon; 0: any */
    bool leaves_clients; /* does not look at how what it starts for hosts ends
                          */
    const char *rank;    /* the variable with a process's rank in the world */
    const char *const *own; /* variables that its mpirun sets, as they begin */
    const char *const *no_fabric; /* NAME=VALUE, on a host without a fabric, */
    const char *const *no_device; /* and where it has no accelerator either */
    const char *file; /* below HOME, a person's settings: NAME = VALUE, where
                         `prefix` is before the variable's name; NULL: none */
    const char *prefix;
    const rg__flavour_place *places;
} rg__flavour;

/* By number, below RG__FLAVOURS. */
const rg__flavour *rg__flavour_at(int i);

/* A bit for each flavour whose programs need that library; 0: no MPI's. */
unsigned rg__flavours_with(const char *library);
/* NULL: none of them says so to --version. */
const rg__flavour *rg__flavour_that_says(const char *text);
/* Whose mpirun has started this process, by its variables; NULL: none. */
const rg__flavour *rg__flavour_here(void);
/* This process's rank, by the variables of any MPI; -1: it has none. */
int rg__flavour_rank(void);
/* A variable that an mpirun sets for its processes, and no person does. */
bool rg__flavours_have_set(const char *variable);

#endif
