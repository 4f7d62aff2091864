"""regroup.h and regroup_cuda.h compile alone, twice in a row, as C99, C11 and
C++17 -Werror; the latter also beside cuda.h, where that is here.

Covers: regroup.h"""

import os
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
CUDA_TEXT = """#include "regroup/regroup_cuda.h"
#include "regroup/regroup_cuda.h"
rg_status use(rg_set *set, float *x, rg_stream stream);
rg_status use(rg_set *set, float *x, rg_stream stream)
{
    rg_op_params params = {sizeof(rg_op_params), 0, 0, 0, 0, 0, RG_DEVICE,
                           stream == 0 ? RG_STREAM_NONE : (void *)stream};
    return rg_allreduce_start(set, x, x, 1, RG_F32, RG_SUM, &params, 0);
}
"""
CUDA = "/usr/local/cuda/include"
BESIDE = """#include <cuda.h>
rg_stream same(CUstream stream);
rg_stream same(CUstream stream) { return stream; }
"""

claims = Claims()


def compile_alone(text, about, *flags):
    for compiler, language, standard in LANGUAGES:
        got = subprocess.run(
            [compiler, "-x", language, "-std=" + standard, *STRICT, *flags,
             "-"], input=text, text=True, capture_output=True, timeout=60,
            env=clean_environment(), check=False)
        claims.equal((got.returncode, got.stderr), (0, ""),
                     f"{about} as {standard}")


compile_alone(TEXT, "regroup.h")
compile_alone(CUDA_TEXT, "regroup_cuda.h")
if os.path.exists(CUDA + "/cuda.h"):
    compile_alone(CUDA_TEXT + BESIDE, "beside cuda.h", "-isystem", CUDA)
claims.end()
