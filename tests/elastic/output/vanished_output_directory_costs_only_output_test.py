"""The directory of --output is removed while a job runs: the next worker finds
it made again. Where it can't be made, what workers print is lost, which is said
once, and the job goes on.

Covers: output.c"""
import os
import shutil

from house import UNTIL_FINISH, Job, claim, main, touch, trainer


def test():
    with Job(["-n", "2", "--host", "h1", "--output", "out"],
             trainer(*UNTIL_FINISH, "--step-ms", "5")) as job:
        out = os.path.join(job.folder, "out")
        job.wait_step(5)
        shutil.rmtree(out)
        job.kill(1)
        job.wait_world(2, above=1)
        claim(sorted(os.listdir(out)) == ["h1.1.2.err", "h1.1.2.out"],
              f"the new files: {os.listdir(out)}")
        shutil.rmtree(out)
        touch(out)
        job.kill(0)
        job.wait_world(2, above=2)
        claim(job.text().count("what workers print is lost") == 1,
              "the loss is not said once")
        job.finish()
        job.check()


main(test)
