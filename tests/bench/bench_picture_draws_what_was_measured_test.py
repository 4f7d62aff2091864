"""bench_picture draws a line for each kind of memory and for MPI, with a point
for each size where it belongs, and refuses what is no output of
bench_collectives with one sentence that names the line.

Covers: bench_picture.py"""

import json
import os
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ET

from house import BUILD, SOURCE, claim, main

SVG = "{http://www.w3.org/2000/svg}"
SIZES = [8, 128, 2048, 32768]


def row(op, size, memory, us, mpi_us=None, **more):
    beside = None if mpi_us is None else {"time_us": mpi_us, "wrong": 0}
    return {"op": op, "sets": "world", "ranks": 2, "hosts": 1, "size": size,
            "type": "f32", "place": "out", "memory": memory, "time_us": us,
            "wrong": 0, "mpi": beside, **more}


def sample():
    """Times grow tenfold from size to size, so points lie on a straight line;
    MPI takes ten times as long."""
    rows = []
    for op in ("allreduce", "broadcast"):
        for i, size in enumerate(SIZES):
            rows += [row(op, size, "user", 10.0 ** i, 10.0 ** (i + 1)),
                     row(op, size, "alloc", 10.0 ** i / 2, 10.0 ** (i + 1)),
                     row(op, size, "user", 7e5, 7e5, place="in")]
    return rows + [row("barrier", 0, "user", 1.0),
                   row("gather", 8, "user", 1.0, place="in"),
                   row("gather", 2048, "user", 1.0, place="in"),
                   row("scatter", 8, "user", 1.0, sets="both")]


def draw(d, lines):
    given, made = os.path.join(d, "rows.json"), os.path.join(d, "made.svg")
    if os.path.exists(made):
        os.remove(made)
    with open(given, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    done = subprocess.run([os.path.join(BUILD, "bin", "bench_picture"), given,
                           "-o", made], capture_output=True, text=True,
                          timeout=60, check=False)
    return done, made


def points_of(line):
    return [tuple(map(float, pair.split(",")))
            for pair in line.get("points").split()]


def is_straight(points):
    (x0, y0), (x1, y1) = points[0], points[-1]
    return all(abs(y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y) < 0.3
               for x, y in points)


def check_drawn(d):
    done, made = draw(d, [json.dumps(r) for r in sample()])
    claim(done.returncode == 0 and not done.stderr, done.stderr)
    root = ET.parse(made).getroot()
    panels = root.findall(SVG + "g")
    claim(len(panels) == 3, f"{len(panels)} panels for three collectives")
    claim(len(panels[2].findall(SVG + "polyline")) == 1, "gather, in place")
    for panel in panels[:2]:
        lines = [points_of(line) for line in panel.findall(SVG + "polyline")]
        claim([len(line) for line in lines] == [len(SIZES)] * 3, str(lines))
        claim(all(is_straight(line) for line in lines), str(lines))
        tops = sorted(line[0][1] for line in lines)
        # MPI is above both: a smaller y; a decade is ten times 1 us
        claim(tops[0] < tops[1] < tops[2], str(tops))
        decade = tops[1] - tops[0]
        claim(abs((lines[0][0][1] - lines[0][-1][1]) - 3 * decade) < 0.5,
              f"a decade of {decade}: {lines}")
    texts = "".join(t.text for t in root.iter(SVG + "text"))
    for words in ("allreduce", "broadcast", "MPI", "ordinary memory",
                  "2 ranks on one host", "2K", "1 ms"):
        claim(words in texts, f"{words} is not in {texts}")
    claim("barrier" not in texts and "scatter" not in texts, texts)


def check_refused(d):
    good = json.dumps(row("allreduce", 8, "user", 1.0))

    def without(name):
        return json.dumps({k: v for k, v in json.loads(good).items()
                           if k != name})

    def but(**more):
        return json.dumps({**json.loads(good), **more})
    for lines, sentence in (
            ([good, good[:-5]], "line 2 of .* is no JSON"),
            ([good, "[1]"], "line 2 of .* is no row"),
            ([without("time_us")], 'line 1 of .* has no number "time_us"'),
            ([without("op")], 'line 1 of .* has no text "op"'),
            ([but(size="8")], 'line 1 of .* has no number "size"'),
            ([but(time_us=0)], "line 1 of .* took no time"),
            ([but(wrong=3)], "line 1 of .* has wrong results"),
            ([but(mpi={"wrong": 0})], 'line 1 of .* has an "mpi" without'),
            ([good, but(ranks=4)], "several worlds: 2 ranks .* 4 ranks"),
            ([but(sets="both")], "no row is of one world"),
            ([], "there is no row in ")):
        done, made = draw(d, lines)
        claim(done.returncode == 1 and not os.path.exists(made), str(lines))
        said = done.stderr.splitlines()
        claim(len(said) == 1 and said[0].startswith("bench_picture: "),
              done.stderr)
        claim(re.search(sentence, said[0]), f"{said[0]} is not {sentence}")


def check_page(d):
    """docs/numbers.md shows what its rows say."""
    docs = os.path.join(SOURCE, "docs")
    with open(os.path.join(docs, "numbers.jsonl"), encoding="utf-8") as file:
        done, made = draw(d, file.read().splitlines())
    claim(done.returncode == 0, done.stderr)
    with open(made, encoding="utf-8") as file, \
            open(os.path.join(docs, "numbers.svg"), encoding="utf-8") as shown:
        claim(file.read() == shown.read(),
              "docs/numbers.svg is not the picture of docs/numbers.jsonl")


def test():
    with tempfile.TemporaryDirectory() as d:
        check_drawn(d)
        check_refused(d)
        check_page(d)


main(test)
