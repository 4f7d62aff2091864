"""Numbers as the C side has them: integers, which ctypes would cut off without
a word where they are too large, and times in milliseconds."""

from __future__ import annotations

import ctypes
import operator
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
