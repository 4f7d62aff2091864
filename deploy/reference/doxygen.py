#!/usr/bin/env python3
"""deploy/reference/doxygen.py HEADER: a public header with its comments as
Doxygen reads them; every name that it leads to must be there."""

import glob
import os
import re
import sys

from header import NAME, Header, members, rows, segments, split_errors


def plain(text):
    text = re.sub(r"[\\@#%]", r"\\\g<0>", text).replace("&", "&amp;")
    return text.replace("<", "&lt;").replace(">", "&gt;")


def mark(text):
    """Running text: public names lead to themselves."""
    out = []
    for i, part in enumerate(re.split(r"`([^`]+)`", text)):
        if i % 2:
            out.append(f"<code>{plain(part)}</code>")
            continue
        out += [plain(word) if k % 2 == 0 else
                f'@ref {word} "{word}"' if word in known else f"<code>{word}</code>"
                for k, word in enumerate(NAME.split(part))]
    return "".join(out)


def listed(found):
    return ["<dl>", *(f"<dt>{mark(word)}</dt><dd>{mark(said)}</dd>"
                      for word, said in found), "</dl>"]


def paragraph(text):
    for kind, part in segments(text):
        if kind == "text":
            yield mark(part)
        elif kind == "list":
            yield from listed(part)
        else:
            yield from ["@verbatim", *part, "@endverbatim"]
    yield ""


def said_by(text):
    paragraphs, errors = split_errors(text)
    lines = [line for part in paragraphs for line in paragraph(part)]
    return lines + (["Errors:", *listed(errors)] if errors else [])


def comment(*lines):
    return "\n".join(["/**", *lines, "*/"])


def enum_of_rows(name, found):
    return [f"typedef enum {name} {{", *(
        f"    RG_{row} = {value}, /**< {mark(said)} ({advice}) */"
        for row, value, advice, said in found), f"}} {name};"]


def struct(text):
    """Its members with their comments behind them, for Doxygen."""
    behind = dict(members(text))
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"(\w+)((?:\[\d+\])?;)(?=\s)", lambda found: found[0] + (
        f" /**< {mark(behind[found[1]])} */" if found[1] in behind else ""),
        bare)


def declarations(block):
    for name, text in block.types:
        if rows(block.below) and name == "rg_status":
            yield "\n".join(enum_of_rows(name, rows(block.below)))
        else:
            yield struct(text)
    for _, text in block.functions:
        yield text


def section_of(header, block):
    """Where it belongs; the head's name where there is no section."""
    return f"{header.name}_{block.section}" if block.section else header.name


def written(header):
    shared = {block.section: said_by(block.said)
              for block in header.blocks if not block.names()}
    intro = [line for part in re.split(r"\n\s*\n", header.said.strip("\n"))
             for line in paragraph(part)]
    yield comment("@file", *intro)
    if header.name == "libregroup":
        yield comment("@mainpage", *intro)
    for section in dict.fromkeys(block.section for block in header.blocks):
        blocks = [block for block in header.blocks
                  if block.section == section and block.names()]
        yield comment(f"@defgroup {section_of(header, blocks[0])} "
                      f"{(section or header.name).capitalize()}",
                      *shared.get(section, []), "@{")
        for block in blocks:
            for text in declarations(block):
                yield comment(*said_by(block.said))
                yield text
        yield comment("@}")


path = sys.argv[1]
headers = [Header(each) for each in
           sorted(glob.glob(os.path.join(os.path.dirname(path), "*.h")))]
known = {name for each in headers for name in each.pages()}
print("\n".join(written(Header(path))))
