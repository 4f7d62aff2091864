"""Communicators of any kind may be interposed, hundreds at once, and what they
had goes with them; ranks that share no memory stay with MPI, and so do
persistent collectives, all calls between two groups, and what MPI refuses.

Usage: ... FLAVOUR

Covers: native_set.c mpi_calls.c"""

import sys

from house import claim, main
from preloaded import counted, need_success, preload


def test():
    flavour = sys.argv[1]
    has_persistent = flavour != "openmpi"
    for what in ["communicators", "mistakes"] + has_persistent * ["persistent"]:
        _, err = need_success(what, preload(flavour, 2, "habits", what))
        claim(counted(err)["allreduce"][0] > 0, f"{what}: none was native")
    if flavour == "mpich":
        return  # its UCX can't be set apart on one machine
    result = preload(flavour, 2, "habits", "apart")
    if result[0] == 77 or "77" in result[2]:
        print("ranks can't be set apart without root")
        return
    _, err = need_success("ranks apart", result)
    native, every = counted(err)["allreduce"]
    claim(native == 0 and every > 0,
          f"ranks apart: {native} of {every} calls were native")
    claim("they do not share memory" in err, "nothing says why")


main(test)
