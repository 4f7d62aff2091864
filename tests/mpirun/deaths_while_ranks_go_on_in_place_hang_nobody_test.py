"""Under --mpi=ulfm one rank dies in a commit, another one while those that are
left go on, and then one does not come back at all: it takes a smaller world
each time, and at last another launch, within --launch-timeout. No committed
step is lost.

Covers: in_place.c mend.c workers.c mpirun.c plan.c
"""

from house import UNTIL_FINISH, Job, claim, main
from mpijob import IN_PLACE, MPI_ENV, launches, need_solver, wait_launch

FAULTS = ("commit.before_agree:rank3:step50:gen1:kill,mend:rank1:gen2:kill,"
          "mend:rank0:gen3:sleep60000")


def test():
    need_solver()
    with Job(["--mpi=ulfm", "--min", "2", "--max", "4",
              "--launch-timeout", "5s"], [IN_PLACE, UNTIL_FINISH[1]],
             env=dict(MPI_ENV, REGROUP_FAILPOINT=FAULTS)) as job:
        wait_launch(job, 2)
        told = [(number, size) for number, size, *_ in launches(job)]
        claim(told == [(1, 4), (1, 3), (1, 2), (2, 4)], f"launches: {told}")
        claim("can't go on in place" in launches(job)[-1][-1],
              f"the reason is {launches(job)[-1][-1]}")
        job.wait_step(job.step() + 5)
        job.finish()
        job.check(is_mpi=True)
        claim("steps lost: 0" in job.text(), "a committed step was lost")


main(test)
