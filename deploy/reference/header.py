"""What the comments of a public header say, block by block.

A block is a comment with the declarations below it, up to the next comment. It
is named after its first function, or its first type; rg_x, defined in the
header, belongs to the block of rg_x_start. A comment with nothing below it is
what a section's blocks share. A public name without a comment is a fault."""

import itertools
import os
import re
import sys
import textwrap

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


def segments(text):
    """A paragraph's parts: running text, and what is set in within it, which is
    a list of words that are explained, or stands as it is."""
    lines = text.split("\n")
    if items(lines):
        yield "list", items(lines)
        return
    for is_set_in, run in itertools.groupby(lines, lambda line:
                                            line.startswith("  ")):
        run = list(run)
        if not is_set_in:
            yield "text", " ".join(run)
        elif items(run):
            yield "list", items(run)
        else:
            yield "literal", textwrap.dedent("\n".join(run)).split("\n")


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


def members(text):
    """[(name, what its comment says)] of a struct."""
    return [(name, " ".join(said.split())) for name, said in re.findall(
        r"^[^/]*?\b(\w+)(?:\[\d+\])?;\s*/\*(.*?)\*/", text, re.M | re.S)]


def rows(text):
    """[(name, value, advice, text)] of a status map."""
    return ROW.findall(text)
