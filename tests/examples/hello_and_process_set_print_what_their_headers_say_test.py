"""The headers of 01_hello.c and 02_process_set.c are right about their
output.

Covers: 01_hello.c 02_process_set.c"""

from example import alone, fail, job, need_etcd, program

if "rank 0 of 1" not in alone(program("hello")):
    fail("hello alone is not a world of one")

need_etcd()
output = job("-n", "4", program("hello"))
for rank in range(4):
    if f"rank {rank} of 4 on host " not in output:
        fail(f"no line of rank {rank}", output)
if output.count("the ranks add up to 6") != 4:
    fail("a sum is wrong", output)

output = job("-n", "4", program("process_set"))
for rank in range(4):
    name, total = ("even", 2) if rank % 2 == 0 else ("odd", 4)
    expected = (f"rank {rank} is {rank // 2} of 2 in {name}: the set's ranks "
                f"add up to {total}, the world's to 6")
    if expected not in output:
        fail(f"not printed: {expected}", output)
