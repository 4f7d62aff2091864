#!/bin/bash
#SBATCH --requeue --open-mode=append --signal=B:TERM@120
# A job of Regroup in a Slurm allocation, which goes on from its newest
# checkpoint when the time is over or hosts are gone:
#
#   sbatch --nodes=4 --ntasks-per-node=8 job.sh --checkpoint-dir DIR ./train
#
# What follows is given to `regroup run`, which has the hosts from Slurm's
# variables; --mpi for a program of MPI.
regroup run "$@" &
pid=$!
stopped=no
trap 'stopped=yes; kill -TERM $pid' TERM # time is nearly over: save and end
wait $pid
code=$?
while kill -0 $pid 2>/dev/null; do # a trap has ended the wait
    wait $pid
    code=$?
done
if [ $code = 75 ] || [ $stopped = yes ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
