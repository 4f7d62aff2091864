"""elastic_digits without an agent reaches its accuracy, on the way that its
header shows; how often it commits changes nothing; it says what is wrong with
its flags and its data.

Covers: 03_elastic_digits.c"""

import os
import re

from example import SOURCE, alone, fail, final, program

DIGITS = program("elastic_digits")

output = alone(DIGITS)
accuracy, state = final(output)
with open(os.path.join(SOURCE, "examples/03_elastic_digits.c"),
          encoding="utf-8") as source:
    promised = re.search(r"step 120 .*accuracy \S+", source.read()).group()
if promised not in output:
    fail(f"not printed: {promised}", output)
if accuracy < 0.95:
    fail(f"accuracy {accuracy}")
if final(alone(DIGITS, "--commit-every", "7")) != (accuracy, state):
    fail("--commit-every changes the result")
if final(alone(DIGITS, "--float"))[0] < 0.95:
    fail("--float does not learn")
if final(alone(DIGITS, "--epochs", "1"))[1] == state:
    fail("one epoch ends in the state of all")
if "usage" not in alone(DIGITS, "--epoch-count", "1", expected=64):
    fail("an unknown flag prints no usage")
if "usage" not in alone(DIGITS, "--batch", "0", expected=64):
    fail("an empty batch prints no usage")
if "/no/digits" not in alone(DIGITS, "--data", "/no/digits", expected=1):
    fail("missing data is not named")
if "batch" not in alone(DIGITS, "--batch", "1439", expected=1):
    fail("a batch above the data is not named")
