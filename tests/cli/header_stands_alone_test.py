"""regroup.h compiles alone, twice in a row, as C99, C11 and C++17 -Werror."""

import subprocess

from command import SOURCE, Claims, clean_environment

STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion",
          "-Wshadow", "-fsyntax-only", "-I", SOURCE + "/sdk/include"]
LANGUAGES = [("gcc", "c", "c99"), ("gcc", "c", "c11"), ("g++", "c++", "c++17")]
TEXT = """#include "regroup/regroup.h"
#include "regroup/regroup.h"
rg_status use(rg_set *set, float *x);
rg_status use(rg_set *set, float *x)
{
    return rg_allreduce(set, x, x, 1, RG_F32, RG_SUM);
}
"""

claims = Claims()
for compiler, language, standard in LANGUAGES:
    got = subprocess.run([compiler, "-x", language, "-std=" + standard,
                          *STRICT, "-"], input=TEXT, text=True,
                         capture_output=True, timeout=60,
                         env=clean_environment())
    claims.equal((got.returncode, got.stderr), (0, ""), standard)
claims.end()
