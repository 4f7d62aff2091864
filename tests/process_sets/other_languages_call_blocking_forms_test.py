"""The blocking forms of the collectives are functions of the library, which a
language without a C compiler can look up and call.

Covers: blocking.c
"""

import ctypes
import os
import sys

FORMS = ["allreduce", "reduce", "reduce_scatter", "broadcast", "allgather",
         "gather", "scatter", "alltoall", "barrier", "join"]

lib = ctypes.CDLL(os.path.join(os.environ["REGROUP_BUILD"], "lib",
                               "libregroup.so"))
missing = [name for name in FORMS if not hasattr(lib, "rg_" + name)] + \
    [name for name in ["rg_exit_code"] if not hasattr(lib, name)]
if missing:
    sys.exit(f"FAILED: libregroup has no {missing}")
ctx = ctypes.c_void_p()
lib.rg_world.restype = ctypes.c_void_p
if lib.rg_init(None, ctypes.byref(ctx)) != 0:
    sys.exit("FAILED: rg_init")
world = ctypes.c_void_p(lib.rg_world(ctx))
if lib.rg_barrier(world) != 0:
    sys.exit("FAILED: a barrier of one")
if lib.rg_exit_code(0) != 0 or lib.rg_exit_code(-1) != 1:
    sys.exit("FAILED: rg_exit_code")
if lib.rg_finalize(ctx) != 0:
    sys.exit("FAILED: rg_finalize")
