"""bench_collectives measures every collective, type and layout of sets, says so
in a table and as JSON, and no result is wrong. Without an argument under
`regroup run` and alone; with an MPI's name under its mpirun, where the call of
MPI stands beside. It claims nothing about how fast they are."""

import json
import os
import shutil
import subprocess
import sys

BUILD = os.environ["REGROUP_BUILD"]
sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests", "mpi"))
import run as mpi  # pylint: disable=wrong-import-position

FLAVOUR = sys.argv[1] if len(sys.argv) > 1 else None
BUILT_FOR = "-" + FLAVOUR.rstrip("5") if FLAVOUR else ""
PROGRAM = BUILD + "/bin/bench_collectives" + BUILT_FOR
KINDS = ["allreduce", "reduce", "reduce_scatter", "allgather", "broadcast",
         "gather", "scatter", "alltoall", "barrier"]
QUICK = ["--iters", "2", "--warmup_iters", "1"]


def fail(why):
    print(why, file=sys.stderr)
    sys.exit(1)


def run(np, words, **environment):
    """What bench_collectives wrote to standard output."""
    words = [PROGRAM, *words, *QUICK]
    if FLAVOUR:
        code, out, err = mpi.run(FLAVOUR, np, words, **environment)
    else:
        if np > 1:
            words = [BUILD + "/bin/regroup", "run", "-n", str(np), *words]
        done = subprocess.run(words, capture_output=True, timeout=100,
                              check=False, text=True,
                              env={**os.environ, **environment})
        code, out, err = done.returncode, done.stdout, done.stderr
    if code != 0:
        fail(f"{words} ended with {code}:\n{out}{err}")
    return out


def rows_of(np, *words, **environment):
    text = run(np, [*words, "--json"], **environment)
    rows = [json.loads(line[line.index("{"):])
            for line in text.splitlines() if "{" in line]
    for row in rows:
        if row["wrong"] != 0 or not 0 < row["p10_us"] <= row["time_us"]:
            fail(f"wrong: {row}")
        if row["mpi"] and row["mpi"]["wrong"] != 0:
            fail(f"MPI's is wrong: {row}")
    return rows


def every_collective(np, **environment):
    rows = rows_of(np, "--op", "all", "--sizes", "4,1000,40K", **environment)
    want = {(kind, size, place, memory)
            for kind in KINDS for size in (4, 1000, 40960)
            for place in ("out", "in") for memory in ("user", "alloc")
            if kind not in ("broadcast", "barrier") or place == "in"
            if kind != "barrier" or size == 4}
    # A size that ranks can't share evenly is rounded.
    near = {(r["op"], min((4, 1000, 40960), key=lambda s: abs(s - r["size"])),
             r["place"], r["memory"]) for r in rows}
    if near != want:
        fail(f"not all of {want - near}, or more: {near - want}")
    if any((row["mpi"] is None) != (FLAVOUR is None) for row in rows):
        fail("the call of MPI stands beside where it is not, or not")


def uneven_parts(np, **environment):
    rows = rows_of(np, "--op", "all", "--uneven", "--sizes", "8,3000",
                   "--memory", "user", **environment)
    names = [kind + "v" for kind in KINDS if "sca" in kind or "gath" in kind
             or kind == "alltoall"]
    if [row["op"] for row in rows] != [name for name in names for _ in range(4)]:
        fail(f"--uneven: other rows: {rows}")


def every_type(np):
    for words in (["--type", "bf16", "--redop", "avg"], ["-d", "i64", "-o", "prod"],
                  ["-d", "bool", "-o", "lxor"], ["-d", "f16"], ["-d", "u8"],
                  ["-d", "f64", "-o", "max", "-r", str(np - 1)]):
        if len(rows_of(np, "--op", "all", "--sizes", "520", *words)) != 32:
            fail(f"other rows with {words}")


def every_layout(np, **environment):
    names = {"halves": ["lower alone", "upper alone", "both"],
             "hundred": ["100 in turn", "100 together"],
             "late": ["common alone", "common late", "apart alone", "apart late"]}
    for layout, want in names.items():
        rows = rows_of(np, "--sets", layout, "--op", "allreduce,alltoall",
                       "-b", "64", "-e", "1K", "-f", "16", "--place", "in",
                       "--memory", "user", **environment)
        if [row["sets"] for row in rows] != want * 4:
            fail(f"{layout}: other rows: {rows}")
        if any("against" not in row for row in rows
               if row["sets"] in (want[-1], want[1]) and layout == "late"):
            fail(f"{layout}: held against nothing: {rows}")


def the_table(np):
    shown = run(np, ["--sizes", "8,64K", "--place", "out", "--memory",
                     "alloc"])
    lines = shown.splitlines()
    if "# wrong elements: 0, OK" not in shown:
        fail(f"no end: {shown}")
    heads = [line.split("#", 1)[1].split() for line in lines if "busbw" in line]
    want = ["size", "count", "type", "redop", "root", "op", "sets", "place",
            "mem", "p10", "time", "algbw", "busbw", "#wrong"]
    if len(heads) != 1 or heads[0][:len(want)] != want:
        fail(f"other columns: {heads}")
    rows = [line.split() for line in lines if "#" not in line and "f32" in line]
    at = [row.index("f32") - 2 for row in rows]
    if [row[i:i + 9] for row, i in zip(rows, at)] != [
            ["8", "2", "f32", "sum", "-1", "allreduce", "world", "out", "alloc"],
            ["65536", "16384", "f32", "sum", "-1", "allreduce", "world", "out",
             "alloc"]]:
        fail(f"other rows: {rows}")
    if any(row[i + 13] != "0" for row, i in zip(rows, at)):
        fail(f"wrong: {rows}")


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
        done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=60,
                              check=False, text=True)
        if done.returncode != 64 or said not in done.stderr:
            fail(f"{words}: {done.returncode}: {done.stderr}")


def a_wrong_result(library):
    for words, code in ((["-d", "i32"], 0), ([], 1)):
        done = subprocess.run(
            [PROGRAM, "--sizes", "64", *QUICK, *words], capture_output=True,
            timeout=60, check=False, text=True,
            env={**os.environ, "LD_PRELOAD": library})
        if done.returncode != code or (code and "wrong" not in done.stderr):
            fail(f"a lost element: {done.returncode}: {done.stderr}")


def main():
    if FLAVOUR:
        every_collective(2, REGROUP_TRANSPORTS="mpi")
        uneven_parts(3, REGROUP_TRANSPORTS="mpi")
        if FLAVOUR == "openmpi5":
            return
        every_collective(2)
        every_layout(4, REGROUP_TRANSPORTS="mpi")
        rows_of(2, "--sizes", "8,64K", "--thread-level", "serialized",
                REGROUP_TRANSPORTS="mpi")
        the_table(2)
        return
    bad_usage()
    library = BUILD + "/tests/libloses_an_element.so"
    if os.path.exists(library):
        a_wrong_result(library)
    every_collective(1)
    if shutil.which("etcd") is None:
        print("skipped: etcd is not installed (ci/install installs it)")
        sys.exit(77)
    every_collective(3)
    uneven_parts(3)
    every_type(3)
    every_layout(4)
    the_table(2)


main()
