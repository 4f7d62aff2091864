#!/usr/bin/env python3
"""deploy/man/functions.py [--gzip] FOLDER RELEASE DATE HEADER...: the pages of
section 3, from the comments of public headers.

A block is a comment with the declarations below it, up to the next comment. It
becomes a page with the name of its first function, or of its first type, and
the other names lead there. rg_x, defined in the header, stands on the page of
rg_x_start. The head of x.h is the page libx, and a comment with nothing below
it, which is what a section's pages share, is libx_SECTION. A public name
without a comment is a fault."""

import itertools
import os
import re
import sys
import textwrap

import roff

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
RULER = re.compile(r"^/\* -{10,} ?([a-z ]+)", re.M)
FUNCTION = re.compile(r"(?:RG_API|static inline)\s+([\w\s]+?[\s*]+)"
                      r"(rg_[a-z]\w*)\(([^;{]*?)\)\s*[;{]", re.S)
TYPE = re.compile(r"typedef (?:enum|struct) \w+ \{.*?\} (\w+);"
                  r"|typedef [^;{]*\(\*(\w+)\)\([^;]*\);", re.S)
ROW = re.compile(r'X\((\w+), (-?\d+), (\w+),\s*"([^"]*)"\)')
ERROR = re.compile(r"(?:^|(?<=[.;] ))((?:ERR_\w+(?:, | and )?)+): ")
NAME = re.compile(r"\b((?:rg|RG|ERR|REGROUP|MPI)_\w+|NULL)")


class Block:
    """A comment, what it says, and the declarations below it."""

    def __init__(self, section, text):
        comment = COMMENT.match(text)
        self.section = section
        self.said = uncommented(comment[0]) if comment else ""
        self.below = text[comment.end():] if comment else text
        self.functions = [(name, prototype(kind, name, args)) for
                          kind, name, args in FUNCTION.findall(self.below)]
        self.types = [(match[1] or match[2], match[0])
                      for match in TYPE.finditer(self.below)]

    def names(self):
        return [name for name, _ in self.functions + self.types]

    def page(self):
        return self.names()[0]


def uncommented(comment):
    """The text of a comment, its lines as they stand behind the stars."""
    lines = RULER.sub("/*", comment)[2:-2].splitlines()
    return "\n".join(re.sub(r"^ ?\*? ?", "", line).rstrip() for line in lines)


def prototype(kind, name, args):
    return " ".join(f"{kind}{name}({args});".split()).replace("* ", "*")


class Header:
    """A public header, which a page named after it describes."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.said, self.blocks = blocks_of(file.read(), path)
        self.include = f"#include <regroup/{os.path.basename(path)}>"
        self.name = "lib" + os.path.basename(path)[:-len(".h")]
        self.shared = {block.section: f"{self.name}_{block.section}"
                       for block in self.blocks if not block.names()}

    def pages(self):
        """{name: page}"""
        return {name: block.page() for block in self.blocks
                for name in block.names()}


def blocks_of(header, path):
    """(what the head says, [Block])"""
    head = COMMENT.match(header)
    body = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", header[head.end():],
                  flags=re.S)
    found, section, pending = [], None, ""
    for part in re.split(r"\n\n+", body):
        pending += ("\n" if pending else "") + part
        if pending.count("{") != pending.count("}"):
            continue
        part, pending = pending, ""
        ruler = RULER.match(part)
        section = ruler[1].strip() if ruler else section
        found.append(Block(section, part))
    return uncommented(head[0]), joined(found, path)


def joined(found, path):
    """Blocks with something to say; what has no comment belongs to the block
    before, and a form that waits to the one that starts."""
    kept, starts = [], {}
    for block in found:
        for name, text in list(block.functions):
            starts[name] = block
            start = starts.get(name + "_start")
            if start is not None:
                start.functions.append((name, text))
                block.functions.remove((name, text))
        if not block.said and kept:
            kept[-1].functions += block.functions
            kept[-1].types += block.types
            kept[-1].below += "\n" + block.below
        elif block.said.strip():
            kept.append(block)
        elif block.names():
            sys.exit(f"{path}: {block.names()[0]} has no comment")
    return [block for block in kept
            if block.names() or not block.below.strip()]


# ------------------------------------------------------------------- comments

def items(lines):
    """[(word, text)] when the lines are words with text beside them, in a
    column; else nothing."""
    found, column = [], None
    for line in lines:
        match = re.match(r" *(\S+(?: \S+)*?)  +(\S.*)$", line) or \
            re.match(r"(\S+:) (\S.*)$", line)
        if match and not re.search(r"\S {3,}\S", match[2]) and \
                (column is None or column == match.start(2)):
            column = match.start(2)
            found.append([match[1], match[2]])
        elif found and line[:column].strip() == "":
            found[-1][1] += " " + line.strip()
        else:
            return []
    return found


def paragraph(text, mark):
    """Running text; what is set in within it is a list, or stands as it is."""
    out, lines = [], text.split("\n")
    if items(lines):
        return listed(items(lines), mark)
    for is_set_in, run in itertools.groupby(lines, lambda line:
                                            line.startswith("  ")):
        run = list(run)
        if not is_set_in:
            out += [".PP", *roff.filled(" ".join(run), mark)]
        elif items(run):
            out += listed(items(run), mark)
        else:
            out += roff.literal(textwrap.dedent("\n".join(run)).split("\n"))
    return out


def listed(found, mark):
    return [part for word, said in found for part in
            (".TP", roff.bold(word), *roff.filled(said, mark))]


def split_errors(said):
    """(paragraphs, [(names, what they mean)]): a sentence that begins with
    names of errors and a colon, and what follows it in its paragraph."""
    paragraphs, errors = [], []
    for text in re.split(r"\n\s*\n", said.strip("\n")):
        flat = " ".join(text.split())
        parts = ERROR.split(flat)
        if len(parts) == 1:
            paragraphs.append(text)
            continue
        if parts[0].strip():
            cut = len(parts[0].split())
            paragraphs.append(first_words(text, cut))
        errors += zip(parts[1::2], parts[2::2])
    return paragraphs, errors


def first_words(text, n):
    """The text up to its nth word, its lines as they stand."""
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    return text[:ends[n - 1]]


def summary(said):
    """The first sentence, as a page's name line has it."""
    flat = " ".join(said.split())
    first = re.match(r"(?:\([^)]*\)|\[[^]]*\]|[.:;](?! |$)|[^.:;])*", flat)[0]
    if first.count(" ") < 2:
        first = re.split(r"[.;](?= |$)", flat, maxsplit=1)[0]
    return first if re.match(r"[A-Z]{2}|Regroup", first) else \
        first[0].lower() + first[1:]


# ---------------------------------------------------------------------- pages

def marker(own):
    """Names are bold; those with a page of their own lead there."""
    def mark(text):
        parts = NAME.split(text)
        return "".join(roff.plain(part) if i % 2 == 0 else
                       roff.bold(part) + ("(3)" if part in page_of and
                                          page_of[part] != own else "")
                       for i, part in enumerate(parts))
    return mark


def shown(text):
    """A declaration without its comments, in lines that fit."""
    text = COMMENT.sub("", text)
    if "{" not in text:
        whole = re.sub(r"(?<!,)\s+", "\0", " ".join(text.split()))
        return [line.replace("\0", " ") for line in
                textwrap.wrap(whole, 72, subsequent_indent="    ")]
    begin, inside, end = re.match(r"(.*?\{)(.*)(\}.*)", text, re.S).groups()
    if "RG_X" in inside:
        return [" ".join((begin + " ... " + end).split())]
    if "enum" in begin:
        inside = textwrap.wrap(" ".join(inside.split()), 68)
    else:
        inside = [" ".join(line.split())
                  for line in inside.split(";") if line.strip()]
        inside = [line + ";" for line in inside]
    return [begin, *("    " + line for line in inside), end]


def members(text, mark):
    """What comments in a struct say, by member."""
    out = []
    for names, said in re.findall(r"^\s+([\w\s,*]+(?:\[\d+\])?);\s*"
                                  r"/\*(.*?)\*/", text, re.M | re.S):
        name = " ".join(names.split()).split(" ", 1)[1].lstrip("*")
        out += [".TP", roff.bold(name), *roff.filled(said, mark)]
    return out


def rows(text, mark):
    """Of a status map."""
    return listed([(f"RG_{name}", f"{value}, {advice}: {said}") for
                   name, value, advice, said in ROW.findall(text)], mark)


def describe(page, said, mark):
    """DESCRIPTION; returns the errors."""
    paragraphs, errors = split_errors(said)
    page.head("DESCRIPTION")
    for text in paragraphs:
        page.add(paragraph(text, mark))
    return errors


def add_errors(page, errors, mark):
    if errors:
        page.head("ERRORS")
        for names, said in errors:
            page.add([".TP", roff.bold(names), *roff.filled(said, mark)])


def see(page, header, block):
    """Types and functions that the block names, and where it belongs."""
    text = " ".join([*(proto for _, proto in block.functions + block.types),
                     block.said])
    near = [page_of[name] for name in NAME.findall(text) if name in page_of]
    near += [header.shared.get(block.section), header.name]
    page.see_also([(name, 3) for name in dict.fromkeys(near)
                   if name not in (None, page.name)])


def synopsis(page, header, block):
    page.head("SYNOPSIS")
    lines = [header.include]
    for _, text in block.types + block.functions:
        lines += ["", *shown(text)]
    page.add([".nf", *(roff.bold(line) if line else "" for line in lines),
              ".fi"])


def block_page(header, block):
    page = roff.Page(block.page(), 3, summary(block.said), release, date)
    mark = marker(page.name)
    synopsis(page, header, block)
    errors = describe(page, block.said, mark)
    page.add(rows(block.below, mark))
    for _, text in block.types:
        page.add(members(text, mark))
    if any(text.startswith("rg_status ") for _, text in block.functions):
        if block.section in header.shared:
            page.add([".PP", *roff.filled(
                f"{header.shared[block.section]}(3) says what "
                f"{block.section} share.", mark)])
        page.head("RETURN VALUE")
        page.add(roff.filled(
            "rg_status says what each status asks of the caller. "
            "rg_last_error has the sentence behind an error.", mark))
    add_errors(page, errors, mark)
    see(page, header, block)
    page.write(folder)
    for name in block.names()[1:]:
        roff.link(folder, name, page.name, 3)


def shared_page(header, block):
    page = roff.Page(header.shared[block.section], 3,
                     f"what {block.section} share", release, date)
    mark = marker(page.name)
    errors = describe(page, block.said, mark)
    add_errors(page, errors, mark)
    see(page, header, block)
    page.write(folder)


def contents(page, header, mark):
    """Every page, by section."""
    section = None
    for block in header.blocks:
        if block.section != section:
            section = block.section
            page.add([f".SS {section.capitalize()}"])
        name = block.page() if block.names() else header.shared[section]
        said = summary(block.said) if block.names() else \
            f"what {section} share"
        page.add([".TP", f"{roff.bold(name)}(3)", *roff.filled(said, mark)])


def head_page(header):
    paragraphs = re.split(r"\n\s*\n", header.said.strip("\n"))
    page = roff.Page(header.name, 3, summary(
        re.sub("^Regroup: ", "", paragraphs[0])), release, date)
    mark = marker(page.name)
    page.head("SYNOPSIS")
    page.add([".nf", roff.bold(header.include), ".fi"])
    page.head("DESCRIPTION")
    for text in paragraphs:
        page.add(paragraph(text, mark))
    page.head("FUNCTIONS AND TYPES")
    contents(page, header, mark)
    page.see_also([(other.name, 3) for other in headers if other != header] +
                  [("regroup", 1)])
    page.write(folder)


folder, release, date, *paths = roff.arguments()
headers = [Header(path) for path in paths]
page_of = {name: page for header in headers
           for name, page in header.pages().items()}
for each in headers:
    head_page(each)
    for one in each.blocks:
        (block_page if one.names() else shared_page)(each, one)
