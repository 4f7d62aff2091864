"""A tool that NVTX loads sees operations by their sets, waits and commits as
ranges of the domain regroup, each of which ends once, also in a generation that
broke.

Covers: nvtx.c recorder.c"""
import collections
import glob
import os

from house import BUILD, Job, claim, main, skip, trainer

TOOL = os.path.join(BUILD, "tests", "libnvtx_tool.so")
STEPS = 30


def check(path):
    """Returns how often each name began."""
    names, open_ends = collections.Counter(), set()
    with open(path, encoding="ascii") as file:
        claim(next(file) == "domain regroup\n", "the domain")
        for line in file:
            word, number, *name = line.split()
            if word == "begin":
                names[" ".join(name)] += 1
                open_ends.add(number)
            else:
                claim(word == "end" and number in open_ends, line)
                open_ends.remove(number)
    return names, open_ends


def test():
    if not os.path.exists(TOOL):
        skip("the build has no NVTX (REGROUP_NVTX_INCLUDE)")
    env = {"NVTX_INJECTION64_PATH": TOOL, "REGROUP_FAILPOINT":
           "coll.start:rank1:step10:gen1:kill"}
    job = Job(["-n", "2"], trainer("--steps", STEPS, "--commit-every", 3),
              env=env)
    job.env["NVTX_TOOL_OUT"] = out = os.path.join(job.folder, "nvtx")
    os.mkdir(out)
    with job:
        job.finish()
        claim("strikes" in job.text(), "nobody died")
        found = [check(path) for path in glob.glob(f"{out}/*")]
        ends = [(names, rest) for names, rest in found if not rest]
        claim(len(found) == 3 and len(ends) >= 2,
              f"ranges without an end: {found}")
        most = max((names for names, _ in ends), key=lambda n: n["commit"])
        claim(most["allreduce world"] >= STEPS and most["wait"] > 0 and
              most["commit"] >= STEPS // 3, str(most))


main(test)
