#!/usr/bin/env python3
"""deploy/reference/commands.py [--gzip] FOLDER RELEASE DATE COMMAND.MD REGROUP...:
regroup.1 and a page for each command, from what `REGROUP... --help` prints (so
from its tables of commands, settings and flags) and from the exit codes in
COMMAND.MD."""

import re
import subprocess

import roff


def ask(*words):
    return subprocess.run([*regroup, *words, "--help"], check=True, text=True,
                          capture_output=True).stdout


def commands():
    """[(name, summary)] in the order of the table."""
    return re.findall(r"^  (\w+) +(.*)$", ask(), re.M)


def words_of(synopsis):
    """Flags and fixed words are bold, what stands for something is italic."""
    marked = []
    for word in re.split(r"([\[\]|, ]|\.\.\.)", synopsis):
        if re.fullmatch(r"-{1,2}[\w-]+|[a-z]+", word):
            marked.append(roff.bold(word))
        elif re.match(r"[A-Z]", word):
            marked.append(roff.italic(word))
        else:
            marked.append(roff.plain(word))
    return "".join(marked)


def flag(spelling, text):
    """`-n, --np N` and what is said about it, as an entry of a list."""
    return [".TP", words_of(spelling), *roff.filled(text, names)]


def names(text):
    """Variables and flags are bold."""
    parts = re.split(r"(\bREGROUP_[A-Z_]+|(?<![\w-])--?[a-z][\w-]*)", text)
    return "".join(roff.bold(part) if i % 2 else roff.plain(part)
                   for i, part in enumerate(parts))


def split_help(text):
    """(synopsis, [(spelling, text)], details) of a command's help."""
    _, synopsis, rest = text.split("\n\n", 2)
    flags, *details = rest.split("\n\n")
    found = re.split(r"^  (-.*)\n", flags, flags=re.M)[1:]
    return (synopsis.strip(), list(zip(found[::2], found[1::2])), details)


def paragraph(text):
    """Running text, or a list whose words stand before it in a column."""
    items = re.split(r"^  (\S+)  +", text, flags=re.M)
    lines = [".PP", *roff.filled(items[0], names)] if items[0] else []
    for word, said in zip(items[1::2], items[2::2]):
        lines += [".TP", roff.bold(word), *roff.filled(said, names)]
    return lines


def command_page(name, summary):
    synopsis, flags, details = split_help(ask(name))
    page = roff.Page(f"regroup-{name}", 1, summary, release, date)
    page.head("SYNOPSIS")
    page.add([words_of(synopsis)])
    page.head("DESCRIPTION")
    for text in details or [f"{summary[0].upper()}{summary[1:]}."]:
        page.add(paragraph(text))
    page.head("OPTIONS")
    for spelling, text in flags:
        page.add(flag(spelling, text))
    page.see_also([("regroup", 1)])
    page.write(folder)


def exit_codes():
    """Of the table below the heading that names them."""
    with open(docs, encoding="utf-8") as file:
        part = file.read().split("## Exit codes", 1)[1]
    rows = re.findall(r"^\| ([^|-][^|]*) \| (.*) \|$", part, re.M)[1:]
    lines = []
    for meaning, text in rows:
        text = re.sub(r"\s*\(\[[^]]*\]\([^)]*\)\)", "", text)
        lines += [".TP", roff.bold(meaning), *roff.filled(text, names)]
    behind = part.split("\n\n")[2].split("\n#")[0]
    return lines + [".PP", *roff.filled(behind, names)]


def main_page(listed):
    page = roff.Page("regroup", 1, "launcher and agent of elastic jobs",
                     release, date)
    page.head("SYNOPSIS")
    page.add([words_of("regroup COMMAND ..."), ".br",
              words_of("regroup COMMAND --help"), ".br",
              words_of("regroup --version")])
    page.head("DESCRIPTION")
    page.add(roff.filled(
        "Regroup runs jobs whose workers come and go. Each command has a page "
        "of its own."))
    for name, summary in listed:
        page.add([".TP", f"{roff.bold('regroup-' + name)}(1)",
                  *roff.filled(summary)])
    page.head("ENVIRONMENT")
    page.add([*roff.filled(
        "Every flag that has a setting is a variable too, and a line in the "
        "file that `REGROUP_CONFIG` names: `--max-restarts`, "
        "`REGROUP_MAX_RESTARTS`, `max-restarts = 5`. A flag goes before a "
        "variable, and a variable before the file. `regroup config` lists all "
        "settings with their values.")])
    page.head("EXIT STATUS")
    page.add(exit_codes())
    page.see_also([*((f"regroup-{name}", 1) for name, _ in listed),
                   ("libregroup", 3)])
    page.write(folder)


folder, release, date, docs, *regroup = roff.arguments()
found = commands()
main_page(found)
for command in found:
    command_page(*command)
