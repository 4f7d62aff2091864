#!/usr/bin/env python3
"""Run cells of the table of faults, each in a process of its own, and print a
line per cell."""

import argparse
import concurrent.futures
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import cells

HERE = os.path.dirname(os.path.abspath(__file__))
CELL_S = 120  # then a cell is ended
TRIES = 3  # of a cell in which the machine held processes up
STOPS = ("stop", "pause", "agent stop", "agent pause")
LINE = "{:<13} {:<13} {:<9} {:>7} {:>6}  {}"


def seconds(text):
    match = re.fullmatch(r"(\d+)(s|m|h)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is no time like 90s or 30m")
    return int(match.group(1)) * {"s": 1, "m": 60, "h": 3600}[match.group(2)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true",
                        help="name the cells that would run")
    parser.add_argument("--only", metavar="REGEX", default="",
                        help="cells whose name it is found in")
    parser.add_argument("--smoke", action="store_true",
                        help="the cells of the smoke set")
    parser.add_argument("--slice", metavar="K/N", default="1/1",
                        help="every Nth cell, from the Kth")
    parser.add_argument("--jobs", type=int, default=2, metavar="N",
                        help="cells that run at a time (default 2)")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="chooses steps and sizes (default 1)")
    parser.add_argument("--repeat", type=int, default=1, metavar="N",
                        help="run each cell with so many seeds")
    parser.add_argument("--hosts", type=int, default=4, metavar="N")
    parser.add_argument("--slots", type=int, default=2, metavar="N")
    parser.add_argument("--names", action="store_true",
                        help="hosts are names on this machine, also where "
                        "namespaces can be made")
    parser.add_argument("--keep", metavar="DIR", default=os.path.join(
        tempfile.gettempdir(), "regroup-faults"),
                        help="where logs and histories of cells that fail go")
    parser.add_argument("--soak", metavar="TIME", type=seconds,
                        help="no cells, but one job after the other that is "
                        "hurt every 5 s, for so long (90s, 30m)")
    parser.add_argument("--load", metavar="TIME", type=seconds,
                        help="no cells, but a job at --detect lan beside "
                        "stress-ng on each processor; no host may be taken "
                        "for lost")
    parser.add_argument("--cell", metavar="NAME", help=argparse.SUPPRESS)
    return parser.parse_args()


def chosen(flags):
    part, parts = map(int, flags.slice.split("/"))
    found = [cell for cell in cells.cells()
             if re.search(flags.only, cell.name) and
             (cell.is_smoke or not flags.smoke)]
    return found[part - 1::parts]


# -------------------------------------------------------------- in its process

def play(flags):
    """One cell, here; prints what it measured."""
    import scene  # pylint: disable=import-outside-toplevel
    from house import Failed, need_etcd  # pylint: disable=import-outside-toplevel
    need_etcd()
    cell = next(c for c in cells.cells() if c.name == flags.cell)
    try:
        ms = scene.Scene(cell, flags.seed, flags.hosts, flags.slots,
                         not flags.names).run(flags.keep)
    except Failed as error:
        print(f"FAILED: {error}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps({"ms": ms}))


# ------------------------------------------------------------------ the runner

def run_cell(flags, cell, seed):
    """(code, ms or reason, seconds, all that it said, the logs' folder) of the
    first run for which the machine was quick enough."""
    for left in reversed(range(TRIES)):
        result = run_once(flags, cell, seed)
        if left == 0 or not is_held_up(cell, *result):
            return result
        print(f"{cell.name}: again, since {result[1]}", flush=True)


def is_held_up(cell, code, found, _seconds, _said, keep):
    """It has failed, and its logs say of an agent or a worker that it got no
    processor in time; or it was skipped for that. Where the fault itself
    stops a process they always say so."""
    from house import HELD_UP  # pylint: disable=import-outside-toplevel
    if code != 1 or cell.fault in STOPS:
        return code == 77 and "too much else runs" in found
    for path in glob.glob(os.path.join(keep, "*.log")):
        with open(path, encoding="utf-8", errors="replace") as log:
            if HELD_UP.search(log.read()):
                return True
    return False


def run_once(flags, cell, seed):
    keep = os.path.join(flags.keep, f"{cell.name.replace('/', '_')}-{seed}")
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-S", os.path.join(HERE, "faults.py"), "--cell",
         cell.name,
         "--seed", str(seed), "--hosts", str(flags.hosts), "--slots",
         str(flags.slots), "--keep", keep,
         *(["--names"] if flags.names else [])], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True)
    try:
        out, err = process.communicate(timeout=CELL_S)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code, err = 124, f"{err}\nFAILED: not over after {CELL_S} s"
    return code, why(code, out, err), time.monotonic() - begin, out + err, keep


def why(code, out, err):
    if code == 0:
        return json.loads(out.splitlines()[-1])["ms"]
    lines = (out + err).splitlines()
    for i, line in enumerate(lines):
        if line.startswith(("FAILED: ", "skipped: ")):
            return "; ".join(lines[i:i + 3])
    return lines[-1] if lines else "?"


def show(cell, seed, result):
    code, found, seconds, said, keep = result
    then = f" +{cell.second_ms}" if cell.second_ms >= 0 else ""
    ms = f"{found:.0f}" if code == 0 else "-"
    verdict = "ok" if code == 0 else found
    if code not in (0, 77) and not verdict.startswith("FAILED"):
        verdict = "FAILED: " + verdict
    tls = "tls " if cell.has_tls else ""
    print(LINE.format(tls + cell.fault + then, cell.phase, cell.target, ms,
                      f"{seconds:.1f}", verdict), flush=True)
    if code not in (0, 77):
        print(f"--- {cell.name}, seed {seed}; log and history are in {keep}\n"
              f"{said}---", flush=True)


def report(counts, seconds):
    print(f"{sum(counts.values())} cells in {seconds:.0f} s: {counts['ok']} ok,"
          f" {counts['skipped']} skipped, {counts['FAILED']} FAILED")


def run(flags, found):
    from hosts import can_make_namespaces  # pylint: disable=import-outside-toplevel
    if not flags.names and can_make_namespaces():
        print("hosts are network namespaces")
    else:
        print("hosts are names on this machine (no root, no iproute2, or "
              "--names): what needs a cut is skipped")
    print(f"{len(found)} cells, seed {flags.seed}")
    print(LINE.format("fault", "phase", "target", "pause", "took", ""))
    print(LINE.format("", "", "", "ms", "s", ""), flush=True)
    counts = {"ok": 0, "skipped": 0, "FAILED": 0}
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        running = {pool.submit(run_cell, flags, cell, flags.seed + i):
                   (cell, flags.seed + i)
                   for i in range(flags.repeat) for cell in found}
        for future in concurrent.futures.as_completed(running):
            code = future.result()[0]
            counts[{0: "ok", 77: "skipped"}.get(code, "FAILED")] += 1
            show(*running[future], future.result())
    report(counts, time.monotonic() - begin)
    return 1 if counts["FAILED"] else 0 if counts["ok"] or not found else 77


def main():
    flags = arguments()
    if flags.cell:
        play(flags)
        return
    if flags.soak or flags.load:
        import soak  # pylint: disable=import-outside-toplevel
        play_long = soak.run if flags.soak else soak.run_loaded
        sys.exit(play_long(flags.soak or flags.load, flags.seed, flags.keep))
    found = chosen(flags)
    if flags.list:
        for cell in found:
            print(cell.name)
        return
    sys.exit(run(flags, found))


if __name__ == "__main__":
    main()
