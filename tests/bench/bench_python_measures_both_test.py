"""bench_python prints each call in C, through the compiled part and through
ctypes; the compiled part adds at most half of what ctypes adds to a call, and a
group through it takes at most half of the time. With --ddp it prints a step of
DDP over Regroup and over gloo.

Covers: bench_python.py bench_python_calls.c"""
import os
import re

import pyjob
from house import BUILD, claim, main_all

CALLS = ("8 bytes", "flat", "group")


def test_calls():
    python = pyjob.python_with("numpy")
    output = pyjob.run([python, os.path.join(BUILD, "bin/bench_python"), "-n",
                        "1", "--turns", "3", "--seconds", "0.03"])
    found = {name: float(us) for name, us in
             re.findall(r"\| ([\w ]+, \w+) +([\d.]+) us", output)}
    for call in CALLS:
        for how in ("C", "ctypes"):
            claim(found.get(f"{call}, {how}", 0) > 0, output)
    if not os.path.exists(os.path.join(BUILD, "lib/regroup_fast.abi3.so")):
        return
    c, fast, slow = (found[f"8 bytes, {how}"]
                     for how in ("C", "compiled", "ctypes"))
    claim(fast - c < (slow - c) / 2, output)
    claim(found["group, compiled"] < found["group, ctypes"] / 2, output)


def test_of_ddp():
    python = pyjob.python_with("numpy", "torch")
    output = pyjob.run([python, os.path.join(BUILD, "bin/bench_python"), "-n",
                        "2", "--turns", "1", "--ddp"])
    for how in ("regroup", "gloo", "none"):
        claim(re.search(rf"\| DDP, {how} +[\d.]+ ms", output), output)


main_all(globals())
