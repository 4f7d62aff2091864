"""A name of the product means one thing: no two files have one name, no macro
has two values, types that headers share bear our prefix, and the variable of a
status is st. A test's name is a sentence without an article in front. What one
room keeps for itself is no field of struct rg__agent, which has fewer than 55.

Covers: tests/README.md"""
import collections
import os
import re
import sys

SOURCE = os.environ["REGROUP_SOURCE"]
ROOMS = ("sdk", "process_sets", "elastic")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
MACRO = re.compile(r"^#define (RG_\w+)[ \t]+(\S.*)$", re.M)
TYPE = re.compile(r"^(?:typedef )?(?:struct|enum|union) (\w+) *\{"
                  r"|^\} (\w+);"
                  r"|^typedef [^;{]*?\b(\w+);"
                  r"|^typedef [^;{]*?\(\*(\w+)\)", re.M)
AGENT = re.compile(r"^struct rg__agent \{(.*?)^\};", re.M | re.S)
AGENT_FIELDS = 55
STATUS = re.compile(r"\brg_status (rs|ret|rc|err|status)\b *(?:=|;)")
faults = []


def headers_and_sources():
    for room in ROOMS:
        for at, _, names in os.walk(os.path.join(SOURCE, room)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(at, name), SOURCE)


def text_of(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return COMMENT.sub("", file.read()).replace("\\\n", "")


def look_at_macros(path, text, values):
    for name, value in MACRO.findall(text):
        if not re.search(rf"#ifndef {name}\n", text):
            values[name].setdefault(" ".join(value.split()), path)


def look_at_types(path, text):
    if path.startswith("sdk/include"):
        return
    if path.startswith("sdk/transport/nccl"):
        return  # names of CUDA and NCCL
    for names in TYPE.findall(text):
        name = "".join(names)
        if not name.startswith(("rg_", "RG_")):
            faults.append(f"{path} shares the type {name}, without rg__")


def look_at_statuses(path, text):
    for name in STATUS.findall(text):
        faults.append(f"{path} calls a status {name}; the others say st")


def look_at_agent(text):
    fields = AGENT.search(text).group(1)
    n = fields.count(";") + fields.count(",")
    if n >= AGENT_FIELDS:
        faults.append(f"struct rg__agent has {n} fields; it may have "
                      f"{AGENT_FIELDS - 1}: give its room a struct of its own")


def look_at_tests():
    for at, _, names in os.walk(os.path.join(SOURCE, "tests")):
        faults.extend(f"{os.path.relpath(at, SOURCE)}/{name}: the name of a "
                      "test begins without an article" for name in names
                      if re.match(r"(a|an|the)_.*_test\.", name))


files = collections.defaultdict(list)
values = collections.defaultdict(dict)
for path in headers_and_sources():
    files[os.path.basename(path)].append(path)
    text = text_of(path)
    look_at_macros(path, text, values)
    look_at_statuses(path, text)
    if path.endswith(".h"):
        look_at_types(path, text)
faults += [f"{' and '.join(paths)} have one name; git grep, gdb and ctest "
           "print only that" for paths in files.values() if len(paths) > 1]
faults += [f"{name} has several values: {found}"
           for name, found in values.items() if len(found) > 1]
look_at_agent(text_of("elastic/agent/base/agent_state.h"))
look_at_tests()
print("\n".join(faults))
sys.exit(1 if faults else 0)
