"""The compiled part of the package, where it is: beside the library, or in the
wheel. `fast` is None without it, and all that it does is done in Python."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import typing

from ._abi import LIBRARY, VERSION, lib
from ._buffers import torch_types
from ._errors import error_of

_NAME = "regroup_fast"
_CALLS = ("rg_allreduce_start", "rg_group_start", "rg_group_end",
          "rg_wait_all", "rg_last_error")


def _place() -> pathlib.Path | None:
    """REGROUP_PYTHON_FAST=off: nowhere."""
    if sys.version_info < (3, 11) or sys.implementation.name != "cpython" or \
            os.environ.get("REGROUP_PYTHON_FAST") == "off":
        return None
    for folder in (pathlib.Path(LIBRARY).parent,
                   pathlib.Path(__file__).parent / "lib"):
        place = folder / f"{_NAME}.abi3.so"
        if place.is_absolute() and place.exists():
            return place
    return None


def _load(place: pathlib.Path) -> typing.Any:
    spec = importlib.util.spec_from_file_location(
        _NAME, place, loader=importlib.machinery.ExtensionFileLoader(
            _NAME, str(place)))
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def load(tag_of_shape: typing.Callable[[tuple[int, ...]], int]) -> typing.Any:
    """The compiled part, or None; one of another version is as none."""
    place = _place()
    found = None if place is None else _load(place)
    if found is None or found.VERSION != VERSION:
        return None
    found.bind({name: ctypes.cast(getattr(lib, name), ctypes.c_void_p).value
                for name in _CALLS}, error_of, tag_of_shape, torch_types)
    return found
