#!/usr/bin/env python3
"""A picture of what bench_collectives has measured: time over size, a panel for
each collective, Regroup in both kinds of memory and MPI where it stood beside.

  bench_collectives-openmpi --op all --json > rows.json
  bench_picture rows.json -o numbers.svg

Both axes are logarithmic; a point is the median of a row, out of place where
the collective can be. Rows with wrong results are refused, and so is a line
that is no row."""

import argparse
import json
import math
import sys

PANEL_W, PANEL_H = 300, 220
LEFT, TOP, RIGHT, BOTTOM = 56, 34, 14, 40
HEAD_H = 64
COLUMNS = 3
INK, GRID = "#333", "#ddd"
# what a line shows: its colour, and how it is dashed
LINES = {"Regroup, rg_alloc memory": ("#0b6e4f", ""),
         "Regroup, ordinary memory": ("#1f77b4", ""),
         "MPI": ("#c44e00", "5 3")}
MEMORIES = {"alloc": "Regroup, rg_alloc memory",
            "user": "Regroup, ordinary memory"}
TEXTS = ("op", "place", "memory", "sets", "type")
NUMBERS = ("size", "ranks", "hosts", "time_us", "wrong")


class Refused(Exception):
    """An input that is no output of bench_collectives."""


def parse_flags():
    flags = argparse.ArgumentParser(
        description="Draw what bench_collectives --json has printed.")
    flags.add_argument("files", nargs="+", metavar="FILE")
    flags.add_argument("-o", "--output", default="numbers.svg",
                       metavar="FILE", help="(default: numbers.svg)")
    flags.add_argument("--title", default="")
    return flags.parse_args()


# -------------------------------------------------------------------- rows

def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) \
        and math.isfinite(value)


def check_row(row, where):
    if not isinstance(row, dict):
        raise Refused(f"{where} is no row of bench_collectives --json")
    for name in TEXTS:
        if not isinstance(row.get(name), str):
            raise Refused(f'{where} has no text "{name}"')
    for name in NUMBERS:
        if not is_number(row.get(name)) or row[name] < 0:
            raise Refused(f'{where} has no number "{name}"')
    beside = row.get("mpi")
    if beside is not None and not (
            isinstance(beside, dict) and is_number(beside.get("time_us")) and
            beside["time_us"] > 0 and is_number(beside.get("wrong"))):
        raise Refused(f'{where} has an "mpi" without times')
    if row["time_us"] == 0:
        raise Refused(f"{where} took no time")
    if row["wrong"] or (beside and beside["wrong"]):
        raise Refused(f"{where} has wrong results")


def read_rows(names):
    rows = []
    for name in names:
        try:
            with open(name, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as why:
            raise Refused(f"{name} can't be read: {why}") from why
        for number, line in enumerate(lines, 1):
            where = f"line {number} of {name}"
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as why:
                raise Refused(f"{where} is no JSON: {why}") from why
            check_row(row, where)
            rows.append(row)
    if not rows:
        raise Refused(f"there is no row in {', '.join(names)}")
    return rows


def worlds_of(rows):
    found = sorted({(row["ranks"], row["hosts"]) for row in rows})
    if len(found) > 1:
        raise Refused("the rows are of several worlds: " + ", ".join(
            f"{ranks} ranks on {hosts} hosts" for ranks, hosts in found))
    return found[0]


def panels_of(rows):
    """{op: {line: {size: us}}}; barriers have no size."""
    panels = {}
    rows = [r for r in rows if r["size"] > 0 and r["sets"] == "world"]
    have_out = {r["op"] for r in rows if r["place"] == "out"}
    for row in rows:
        if row["place"] != "out" and row["op"] in have_out:
            continue
        lines = panels.setdefault(row["op"], {})
        own = MEMORIES.get(row["memory"])
        if own is not None:
            lines.setdefault(own, {})[row["size"]] = row["time_us"]
        if row.get("mpi") and row["memory"] == "user":
            lines.setdefault("MPI", {})[row["size"]] = row["mpi"]["time_us"]
    if not panels:
        raise Refused("no row is of one world and has a size")
    return panels


# ----------------------------------------------------------------- drawing

def size_text(size):
    for power, unit in ((30, "G"), (20, "M"), (10, "K")):
        if size >= 1 << power:
            return f"{size / (1 << power):g}{unit}"
    return f"{size:g}"


def time_text(us):
    if us >= 1000:
        return f"{us / 1000:g} ms"
    return f"{us:g} µs"


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text_at(x, y, words, anchor="middle", more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>'
            f"{escaped(words)}</text>")


def line_at(x1, y1, x2, y2, color, more=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{color}" {more}/>')


class Scale:
    """The same for all panels, so that they can be compared."""

    def __init__(self, panels):
        points = [point for lines in panels.values()
                  for times in lines.values() for point in times.items()]
        self.sizes = (min(s for s, _ in points), max(s for s, _ in points))
        self.powers = (math.floor(math.log10(min(t for _, t in points))),
                       math.ceil(math.log10(max(t for _, t in points))))
        if self.powers[0] == self.powers[1]:
            self.powers = (self.powers[0], self.powers[0] + 1)

    def x(self, size):
        least, most = (math.log2(s) for s in self.sizes)
        share = (math.log2(size) - least) / (most - least) if most > least \
            else 0.5
        return LEFT + share * (PANEL_W - LEFT - RIGHT)

    def y(self, us):
        least, most = self.powers
        share = (math.log10(us) - least) / (most - least)
        return PANEL_H - BOTTOM - share * (PANEL_H - TOP - BOTTOM)


def grid(scale):
    marks = []
    for power in range(scale.powers[0], scale.powers[1] + 1):
        y = scale.y(10.0 ** power)
        marks += [line_at(LEFT, y, PANEL_W - RIGHT, y, GRID),
                  text_at(LEFT - 6, y + 4, time_text(10.0 ** power), "end")]
    power = math.ceil(math.log2(scale.sizes[0]))
    while 2 ** power <= scale.sizes[1]:
        x = scale.x(2 ** power)
        marks += [line_at(x, TOP, x, PANEL_H - BOTTOM, GRID),
                  text_at(x, PANEL_H - BOTTOM + 16, size_text(2 ** power))]
        power += 4
    return marks


def panel(op, lines, scale):
    marks = [text_at(LEFT, TOP - 12, op, "start", 'font-weight="bold"'),
             *grid(scale)]
    for name, times in sorted(lines.items()):
        color, dashes = LINES[name]
        places = [(scale.x(size), scale.y(us))
                  for size, us in sorted(times.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        marks.append(f'<polyline points="{path}" fill="none" stroke="{color}" '
                     f'stroke-width="2" stroke-dasharray="{dashes}"/>')
        marks += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>'
                  for x, y in places]
    return marks


def head(title, panels):
    marks, x = [text_at(LEFT, 22, title, "start", 'font-size="15"')], LEFT
    shown = {name for lines in panels.values() for name in lines}
    for name, (color, dashes) in LINES.items():
        if name in shown:
            marks += [line_at(x, 44, x + 30, 44, color, 'stroke-width="2" '
                              f'stroke-dasharray="{dashes}"'),
                      text_at(x + 36, 48, name, "start")]
            x += 60 + 7 * len(name)
    return marks


def picture(rows, title):
    ranks, hosts = worlds_of(rows)
    panels = panels_of(rows)
    columns = min(COLUMNS, max(2, len(panels)))
    deep = -(-len(panels) // columns)
    width, height = columns * PANEL_W, HEAD_H + deep * PANEL_H
    where = "one host" if hosts == 1 else f"{hosts} hosts"
    marks = head(title or f"Time of a collective over the size of its data, "
                 f"{ranks} ranks on {where}", panels)
    for i, (op, lines) in enumerate(panels.items()):
        marks.append(f'<g transform="translate({i % columns * PANEL_W},'
                     f'{HEAD_H + i // columns * PANEL_H})">')
        marks += panel(op, lines, Scale(panels)) + ["</g>"]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11" fill="{INK}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *marks, "</svg>", ""])


def main():
    flags = parse_flags()
    try:
        text = picture(read_rows(flags.files), flags.title)
        with open(flags.output, "w", encoding="utf-8") as file:
            file.write(text)
    except (Refused, OSError) as why:
        print(f"bench_picture: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
