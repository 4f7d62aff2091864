"""Each row of behaviours.md leads to a test that is there, or says in words
why it has none; and B1 to B50, F1 to F13 all have a row.

Covers: behaviours.md"""
import glob
import os
import re
import sys

TESTS = os.path.join(os.environ["REGROUP_SOURCE"], "tests")
LAST = {"B": 50, "F": 13}
faults = []


def numbers(cell):
    """Of "B21, B22" or "B32 to B36"."""
    found = [int(number) for number in re.findall(r"[BF](\d+)", cell)]
    all_of = range(found[0], found[-1] + 1) if " to " in cell else found
    return [f"{cell[0]}{number}" for number in all_of]


def look(behaviour, leads, words):
    names = re.findall(r"`(\w+(?:/\w+)+)`", leads)
    for name in names:
        if not glob.glob(os.path.join(TESTS, f"{name}_test.*")):
            faults.append(f"{behaviour} leads to {name}, which is not there")
    if not names and not any(word in leads for word in words):
        faults.append(f"{behaviour} leads nowhere: {leads}")


with open(os.path.join(TESTS, "behaviours.md"), encoding="utf-8") as page:
    text = page.read()
words = re.findall(r'^"(\w+)" is|"(\w+)" is\s', text)
words = [word for pair in words for word in pair if word]
words += ["the same", "no device memory", "none: "]
rows = re.findall(r"^\| ([BF][^|]*|) \|([^|]*)\|([^|]*)\|$", text, re.M)
told = [number for row in rows for number in numbers(row[0]) if row[0]]
for row in rows:
    look(row[0] or row[1].strip(), row[2], words)
look("the head", text.split("| |")[0], ())
faults += [f"{kind}{number} has no row" for kind, last in LAST.items()
           for number in range(1, last + 1) if f"{kind}{number}" not in told]
print("\n".join(faults))
sys.exit(1 if faults else 0)
