"""A C++ exception that leaves fn passes through rg_run, which leaves the job
first: the program may catch it, the others go on at once, and the slot
starts again.

Covers: worker/run.c"""
import os
import shutil
import subprocess
import tempfile

from house import BUILD, SOURCE, Job, claim, main, skip


def build(folder):
    if shutil.which("g++") is None:
        skip("g++ is not installed (ci/install installs it)")
    program, lib = os.path.join(folder, "thrower"), os.path.join(BUILD, "lib")
    subprocess.run(
        ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror",
         f"-I{SOURCE}/sdk/include", f"{SOURCE}/tests/elastic/thrower.cpp",
         "-o", program, f"-L{lib}", "-lregroup", f"-Wl,-rpath,{lib}"],
        check=True)
    return program


def test():
    with tempfile.TemporaryDirectory(prefix="rg-cpp-") as folder:
        with Job(["-n", "2"], [build(folder)]) as job:
            job.finish(seconds=30)
            text = job.text()
    claim("caught no luck, rank -1, again RG_ERR_INVALID: rg_run has failed"
          in text, "the exception is not caught, or rg_run does not know")
    claim(".1 left fn without returning: by an exception" in text,
          "the loss is not named")
    claim(text.count("run RG_OK") == 2, "the job is not done by two")
    claim(text.count("unwound") >= 4, "fn's frames are not unwound")


main(test)
