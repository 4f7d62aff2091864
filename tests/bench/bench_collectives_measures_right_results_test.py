"""bench_collectives measures every collective, type and layout of sets, says so
in a table and as JSON, and no result is wrong. Without an argument under
`regroup run` and alone; with an MPI's name under its mpirun, where the call of
MPI stands beside. It claims nothing about how fast they are.

Covers: collectives/main.c"""

import json
import os
import subprocess
import sys

from house import BUILD, PATIENCE, REGROUP, SOURCE, claim, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run as mpi  # pylint: disable=wrong-import-position

FLAVOUR = sys.argv[1] if len(sys.argv) > 1 else None
BUILT_FOR = "-" + FLAVOUR.rstrip("5") if FLAVOUR else ""
PROGRAM = BUILD + "/bin/bench_collectives" + BUILT_FOR
LOSES_AN_ELEMENT = BUILD + "/tests/libloses_an_element.so"
OVER_MPI = {"REGROUP_TRANSPORTS": "mpi"}
KINDS = ["allreduce", "reduce", "reduce_scatter", "allgather", "broadcast",
         "gather", "scatter", "alltoall", "barrier"]
UNEVEN = ["reduce_scatterv", "allgatherv", "gatherv", "scatterv", "alltoallv"]
QUICK = ["--iters", "2", "--warmup_iters", "1"]


def alone(*words, **environment):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True,
                          timeout=60 * PATIENCE, check=False,
                          env={**os.environ, **environment})


def output_of(np, words, **environment):
    """What bench_collectives writes to standard output, np ranks."""
    if FLAVOUR:
        code, out, err = mpi.run(FLAVOUR, np, [PROGRAM, *words, *QUICK],
                                 **environment)
    else:
        launch = [REGROUP, "run", "-n", str(np)] if np > 1 else []
        done = subprocess.run([*launch, PROGRAM, *words, *QUICK], text=True,
                              capture_output=True, timeout=100 * PATIENCE,
                              check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    claim(code == 0, f"{words} ended with {code}:\n{out}{err}")
    return out


def rows_of(np, *words, **environment):
    text = output_of(np, [*words, "--json"], **environment)
    rows = [json.loads(line[line.index("{"):])
            for line in text.splitlines() if "{" in line]
    for row in rows:
        claim(row["wrong"] == 0 and 0 < row["p10_us"] <= row["time_us"],
              f"wrong: {row}")
        claim(not row["mpi"] or row["mpi"]["wrong"] == 0,
              f"MPI's is wrong: {row}")
    return rows


def every_collective(np, **environment):
    sizes = (4, 1000, 40960)
    rows = rows_of(np, "--op", "all", "--sizes", "4,1000,40K", **environment)
    want = {(kind, size, place, memory)
            for kind in KINDS for size in sizes
            for place in ("out", "in") for memory in ("user", "alloc")
            if kind not in ("broadcast", "barrier") or place == "in"
            if kind != "barrier" or size == 4}
    # A size that the ranks can't share evenly is rounded.
    got = {(row["op"], min(sizes, key=lambda s: abs(s - row["size"])),
            row["place"], row["memory"]) for row in rows}
    claim(got == want, f"without {want - got}, beyond {got - want}")
    claim(all((row["mpi"] is None) == (FLAVOUR is None) for row in rows),
          "the call of MPI stands beside where there is none, or does not")


def uneven_parts(np, **environment):
    rows = rows_of(np, "--op", "all", "--uneven", "--sizes", "8,3000",
                   "--memory", "user", **environment)
    claim([row["op"] for row in rows] ==
          [name for name in UNEVEN for _ in range(4)],
          f"--uneven: other rows: {rows}")


def every_type(np):
    for words in (["--type", "bf16", "--redop", "avg"], ["-d", "f16"],
                  ["-d", "i64", "-o", "prod"], ["-d", "bool", "-o", "lxor"],
                  ["-d", "u8"], ["-d", "f64", "-o", "max", "-r", str(np - 1)]):
        rows = rows_of(np, "--op", "all", "--sizes", "520", *words)
        claim(len(rows) == 32, f"{words}: other rows: {rows}")


def layout(np, name, trials, held, **environment):
    rows = rows_of(np, "--sets", name, "--op", "allreduce,alltoall", "-b", "64",
                   "-e", "1K", "-f", "16", "--place", "in", "--memory", "user",
                   **environment)
    claim([row["sets"] for row in rows] == trials * 4,
          f"{name}: other rows: {rows}")
    claim(all(("against" in row) == (row["sets"] in held) for row in rows),
          f"{name}: others are held against something: {rows}")


def every_layout(np, **environment):
    layout(np, "halves", ["lower alone", "upper alone", "both"], ["both"],
           **environment)
    # Ranks of MPICH spin: four take 20 s of a processor here, two half of one.
    layout(2 if FLAVOUR == "mpich" else np, "hundred",
           ["100 in turn", "100 together"], ["100 together"], **environment)
    layout(np, "late",
           ["common alone", "common late", "apart alone", "apart late"],
           ["common late", "apart late"], **environment)


def the_table(np):
    shown = output_of(np, ["--sizes", "8,64K", "--place", "out", "--memory",
                           "alloc"])
    heads = [line.split("#", 1)[1].split()
             for line in shown.splitlines() if "busbw" in line]
    want = ["size", "count", "type", "redop", "root", "op", "sets", "place",
            "mem", "p10", "time", "algbw", "busbw", "#wrong"]
    claim(len(heads) == 1 and heads[0][:len(want)] == want,
          f"other columns: {heads}")
    rows = [line.split("| ")[1 if "r0 |" in line else 0].split()
            for line in shown.splitlines() if " f32 " in line]
    same = ["f32", "sum", "-1", "allreduce", "world", "out", "alloc"]
    claim([row[:9] for row in rows] ==
          [["8", "2", *same], ["65536", "16384", *same]], f"others: {rows}")
    claim(all(row[13] == "0" for row in rows), f"wrong: {rows}")
    claim("# wrong elements: 0, OK" in shown, f"it has no end: {shown}")


def bad_usage():
    for words, said in ((["--op", "gossip"], 'knows no "gossip"'),
                        (["--sizes", "8,x"], '"x" is no size'),
                        (["-b", "1M", "-e", "8"], "--minbytes 1048576 is more"),
                        (["-o", "land"], "land does not go with f32"),
                        (["--root", "1"], "--root 1 is no rank"),
                        (["--sets", "halves"], "needs 2 ranks"),
                        (["--thread-level", "some"], "--thread-level some"),
                        (["--uneven"], "--uneven goes with"),
                        (["now"], '"now" is no option'), (["--ops"], "--ops")):
        done = alone(*words)
        claim(done.returncode == 64 and said in done.stderr,
              f"{words}: {done.returncode}: {done.stderr}")


def a_wrong_result_ends_it_with_1():
    if not os.path.exists(LOSES_AN_ELEMENT):
        return  # a sanitizer's build
    for words, code in ((["-d", "i32"], 0), ([], 1)):
        done = alone("--sizes", "64", *QUICK, *words,
                     LD_PRELOAD=LOSES_AN_ELEMENT)
        claim(done.returncode == code and ("wrong" in done.stderr) == code,
              f"a lost element, {words}: {done.returncode}: {done.stderr}")


def test_beside_mpi():
    every_collective(2, **OVER_MPI)
    uneven_parts(3, **OVER_MPI)
    if FLAVOUR == "openmpi5":
        return
    every_collective(2)
    every_layout(4, **OVER_MPI)
    rows_of(2, "--sizes", "8,64K", "--thread-level", "serialized", **OVER_MPI)
    the_table(2)


def test():
    bad_usage()
    a_wrong_result_ends_it_with_1()
    every_collective(1)
    every_collective(3)
    uneven_parts(3)
    every_type(3)
    every_layout(4)
    the_table(2)


main(test_beside_mpi if FLAVOUR else test)
