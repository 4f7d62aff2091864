"""A rank that waits in an interposed collective moves its messages on, on which
another rank waits before it comes there; threads wait on communicators of
their own.

Usage: ... FLAVOUR

Covers: carry.c begin.c"""

import sys

from house import claim, main
from preloaded import counted, need_success, preload


def test():
    flavour = sys.argv[1]
    # so that a message takes its sender's help, on Open MPI as well
    by_copies = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                 "OMPI_MCA_smsc": "^cma,xpmem,knem"}
    for what in "messages", "threads":
        _, err = need_success(what, preload(flavour, 2, "habits", what,
                                            **by_copies))
        native, every = counted(err).get("allreduce", (0, 0))
        claim(2 * native > every, f"{what}: {native} of {every} were native")


main(test)
