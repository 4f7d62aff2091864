#!/usr/bin/env python3
"""deploy/reference/functions.py [--gzip] FOLDER RELEASE DATE HEADER...: the pages of
section 3, from the comments of public headers.

A block (header.py) is a page with its own name, and its other names lead there.
The head of x.h is the page libx; what a section's pages share is libx_SECTION.
"""

import re
import textwrap

import roff
from header import COMMENT, NAME, Header, members, rows, segments, \
    split_errors, summary


def paragraph(text, mark):
    out = []
    for kind, part in segments(text):
        if kind == "text":
            out += [".PP", *roff.filled(part, mark)]
        else:
            out += listed(part, mark) if kind == "list" else roff.literal(part)
    return out


def listed(found, mark):
    return [part for word, said in found for part in
            (".TP", roff.bold(word), *roff.filled(said, mark))]


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
    page.add(listed([(f"RG_{name}", f"{value}, {advice}: {said}") for
                     name, value, advice, said in rows(block.below)], mark))
    for _, text in block.types:
        page.add(listed(members(text), mark))
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
