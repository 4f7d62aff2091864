"""What tests/elastic/waiter.c prints."""
import os
import re

from house import BUILD

WAITER = os.path.join(BUILD, "tests", "waiter")


def worlds(text):
    """Of each call that returned RG_OK: (slot, rank, size, generation)."""
    return [tuple(map(int, found)) for found in re.findall(
        r"slot (\d+) waited RG_OK rank (\d+) of (\d+) in (\d+):", text)]
