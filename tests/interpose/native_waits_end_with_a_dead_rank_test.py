"""An interposed collective whose peer has died ends, whether its launcher ends
the job or lets the others live; one whose peer is only late does not, whatever
can be seen of the peer.

Usage: ... FLAVOUR

Covers: carry.c peer_lives.c"""

import sys
import time

from house import claim, main
from preloaded import need_success, preload


def test():
    flavour = sys.argv[1]
    for flags in [], ["--enable-recovery"]:
        since = time.monotonic()
        code, _, err = preload(flavour, 3, "habits", "death", flags=flags)
        took = time.monotonic() - since
        claim(took < 30, f"{flags}: it took {took:.1f} s\n{err}")
        claim(code != 0 or flags, f"the launcher knows no failure\n{err}")
    claim("has ended, and a collective waits for it" in err, err)
    need_success("late", preload(flavour, 3, "habits", "late"))


main(test)
