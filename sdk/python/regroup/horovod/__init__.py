"""Horovod's interfaces over Regroup: regroup.horovod.torch. docs/horovod.md
has the table of their names."""
