"""regroup.hpp with g++ and clang++, without a warning: a death during a
collective is thrown where it was called, and the function of run is called
again; owners move, give back what they own, and a group that is not committed
starts nothing; what the program throws passes through run, never through C.
The example prints what it says.

Covers: regroup.hpp 05_elastic.cpp"""
import os
import shutil
import subprocess
import tempfile

from house import BUILD, SOURCE, Job, claim, main, skip

LIB = os.path.join(BUILD, "lib")


def build(compiler, source, folder, *more):
    program = os.path.join(folder, os.path.basename(source))
    return program, subprocess.Popen(
        [compiler, "-std=c++17", "-Wall", "-Wextra", "-Wconversion",
         "-Wshadow", "-Werror", f"-I{SOURCE}/sdk/include",
         f"{SOURCE}/{source}", *(more or (
             "-o", program, f"-L{LIB}", "-lregroup", f"-Wl,-rpath,{LIB}"))])


def play(program):
    with Job(["-n", "3"], [program]) as job:
        job.finish(seconds=30)
        text = job.text()
    claim(text.count("caught RG_ERR_PEER_LOST") == 2, text)
    claim(text.count("is done") >= 3, text)
    claim(text.count("again: the job is done") == 3, text)


def alone(program, how):
    done = subprocess.run([program, how], capture_output=True, text=True,
                          check=False, timeout=20)
    claim(done.returncode == 0 and done.stdout == f"caught {how}\n",
          f"{how}: {done}")


def doubted(program):
    """Rank 0 dies when it has agreed on step 8, which rank 1 learns from the
    next generation alone."""
    with Job(["-n", "2"], [program, "doubted"], env={
            "REGROUP_FAILPOINT": "commit.after_agree:rank0:step8:start1:kill,"
                                 "coll.middle:rank1:step7:start1:sleep300"}
             ) as job:
        job.finish(seconds=30)
        claim("caught doubted" in job.text() and
              "another step" not in job.text(), job.text())


def test():
    if not all(map(shutil.which, ("g++", "clang++"))):
        skip("g++ or clang++ is not installed (ci/install installs both)")
    owner = "tests/elastic/owner.cpp"
    with tempfile.TemporaryDirectory(prefix="rg-cpp-") as folder:
        made = [build("g++", owner, folder),
                build("g++", "tests/elastic/thrower_alone.cpp", folder),
                build("clang++", "examples/05_elastic.cpp", folder),
                build("clang++", owner, folder, "-fsyntax-only")]
        claim(all([started.wait() == 0 for _, started in made]),
              "a program does not compile")
        (owner, _), (alone_, _), (example, _), _ = made
        play(owner)
        alone(alone_, "mine")
        alone(alone_, "told")
        doubted(alone_)
        with Job(["-n", "2"], [example]) as job:
            job.finish(seconds=30)
            claim("step 200: w is 0.00 1.00 2.00 3.00" in job.text(),
                  job.text())


main(test)
