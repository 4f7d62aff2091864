"""Numbers and names as the C side has them: integers, which ctypes would cut
off silently if they are too large, times in milliseconds, and text, which C
would cut off at its first NUL."""

from __future__ import annotations

import ctypes
import operator
import os
import typing

from ._errors import Invalid

_MOST_MS = 2**31 - 1


def integer(what: str, kind: typing.Any, value: typing.SupportsIndex) -> int:
    """An integer, also one of numpy's, that a ctypes class has room for."""
    found = operator.index(value)
    if kind(found).value != found:
        highest = kind(-1).value
        least = 0
        if highest < 0:
            highest = 2 ** (8 * ctypes.sizeof(kind) - 1) - 1
            least = -highest - 1
        raise Invalid(f"{what} is {found}; give one from {least} to {highest}")
    return found


def integers(what: str, kind: typing.Any,
             values: typing.Iterable[typing.SupportsIndex]) -> typing.Any:
    """A C array of them."""
    found = [integer(what, kind, value) for value in values]
    return (kind * len(found))(*found)


def milliseconds(what: str, seconds: float) -> int:
    """A time above 0, at most the longest that C has, which is 24 days."""
    if not seconds > 0:
        raise Invalid(f"{what} is {seconds} s; give a time above 0, or None")
    return max(1, round(min(seconds * 1000, _MOST_MS)))


def _whole(what: str, found: bytes) -> bytes:
    if b"\0" in found:
        raise Invalid(f"{what} is {found!r}, and C ends it at its NUL; give "
                      "one without")
    return found


def text(what: str, given: str) -> bytes:
    """A name."""
    if not isinstance(given, str):
        raise Invalid(f"{what} is {given!r}, which is no str; give it a name")
    return _whole(what, given.encode())


def path(what: str, given: str | os.PathLike) -> bytes:
    """A file or a directory."""
    return _whole(what, os.fsencode(given))
