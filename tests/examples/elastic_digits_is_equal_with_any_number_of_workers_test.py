"""The final state under `regroup run -n N` equals the one of a program alone,
for every N; with --float the accuracy is still there.

Covers: 03_elastic_digits.c"""

from example import alone, fail, final, job, need_etcd, program

need_etcd()
DIGITS = program("elastic_digits")
expected = final(alone(DIGITS))
for workers in 1, 2, 3, 4:
    found = final(job("-n", str(workers), DIGITS))
    if found != expected:
        fail(f"{workers} workers end with {found}, one alone with {expected}")
if final(job("-n", "3", DIGITS, "--float"))[0] < 0.95:
    fail("--float does not learn with 3 workers")
