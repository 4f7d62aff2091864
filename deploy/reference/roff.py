"""What manual pages are written in (man(7)): words, paragraphs, pages."""

import gzip
import os
import re
import sys
import textwrap

SENTENCE = re.compile(r"(?<=[.?!])(?<!\.\.) +(?=[A-Z0-9`(])")


def plain(text):
    """Text with no meaning to roff; dashes stay what a shell understands."""
    text = text.replace("\\", "\\e").replace("^", "\\(ha")
    text = text.replace("~", "\\(ti").replace("`", "\\(ga")
    words = re.split(r"(\s+)", text)
    return "".join(word.replace("-", "\\-")
                   if re.match(r"[\[(\"']*-[-\w]|[^a-z]*[\w.]+[/=@:]", word)
                   else word for word in words)


def code(text):
    """Text as it stands: of a program, a table, a prototype."""
    text = plain(text).replace("\\-", "-").replace("-", "\\-")
    return text.replace("'", "\\(aq")


def bold(text):
    return f"\\fB{code(text)}\\fR"


def italic(text):
    return f"\\fI{code(text)}\\fR"


def guard(line):
    """A line of text, also where it begins as a request would."""
    return "\\&" + line if line[:1] in (".", "'") else line


def wrapped(line):
    return [guard(part) for part in textwrap.wrap(
        line, 78, break_long_words=False, break_on_hyphens=False)]


def filled(text, mark=plain):
    """Lines of running text, one sentence each; mark(text) sets the words
    outside of backquotes, and what is inside of them is bold."""
    out = []
    for sentence in SENTENCE.split(" ".join(text.split())):
        parts = re.split(r"`([^`]+)`", sentence)
        out += wrapped("".join(bold(part) if i % 2 else mark(part)
                               for i, part in enumerate(parts)))
    return out


def literal(lines):
    """Lines as they stand, tables and programs."""
    return [".PP", ".nf", *(guard(code(line)) for line in lines), ".fi"]


class Page:
    """One page; written as FOLDER/manN/NAME.N."""

    is_packed = False

    def __init__(self, name, section, summary, release, date):
        self.name, self.section = name, section
        self.lines = [
            f'.TH "{code(name.upper())}" "{section}" "{date}" "{release}" '
            '"Regroup"', ".nh", ".ad l", ".SH NAME",
            *wrapped(f"{code(name)} \\- {plain(summary)}")]

    def head(self, title):
        self.lines.append(f".SH {title}")

    def add(self, lines):
        """Lines of roff; no paragraph begins right behind a heading."""
        for line in lines:
            if not (line == ".PP" and self.lines[-1].startswith(".SH")):
                self.lines.append(line)

    def see_also(self, names):
        """names: (name, section)"""
        if names:
            self.head("SEE ALSO")
            self.lines += [f"{bold(name)}({section})" +
                           ("," if i + 1 < len(names) else "")
                           for i, (name, section) in enumerate(names)]

    def write(self, folder):
        text = ("\n".join(self.lines) + "\n").encode()
        with open(place(folder, self.name, self.section), "wb") as file:
            file.write(gzip.compress(text, mtime=0) if self.is_packed
                       else text)


def arguments():
    """Those of the command line; --gzip makes pages of Debian packages."""
    words = [word for word in sys.argv[1:] if word != "--gzip"]
    Page.is_packed = len(words) < len(sys.argv) - 1
    return words


def place(folder, name, section):
    ending = ".gz" if Page.is_packed else ""
    inside = os.path.join(folder, f"man{section}")
    os.makedirs(inside, exist_ok=True)
    return os.path.join(inside, f"{name}.{section}{ending}")


def link(folder, name, target, section):
    """Let the page of a name be another one."""
    path = place(folder, name, section)
    if os.path.lexists(path):
        os.remove(path)
    os.symlink(os.path.basename(place(folder, target, section)), path)
