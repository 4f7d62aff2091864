"""What is interposed is the same on all ranks: what only some of them name stays
with MPI, with a warning, and an unknown name ends the job with one sentence.

Usage: ... FLAVOUR

Covers: begin.c choice.c"""

import sys

from house import claim, main
from preloaded import counted, need_success, preload


def test():
    flavour = sys.argv[1]
    _, err = need_success("ranks that differ",
                          preload(flavour, 2, "habits", "differ"))
    claim("allreduce" not in counted(err), f"one rank's wish was enough\n{err}")
    claim(err.count("REGROUP_INTERPOSE differs between ranks") == 1, err)
    code, _, err = preload(flavour, 2, "habits", wanted="bcast,reduce_scatter")
    claim(code == 78, f"an unknown name: exit code {code}\n{err}")
    claim(err.count('names "reduce_scatter"; there are all') == 1,
          f"the unknown name is told otherwise than once\n{err}")


main(test)
