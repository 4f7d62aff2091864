"""The demo ends with 0, says so, and draws its picture.

Covers: demo.py"""

import os
import tempfile
import xml.dom.minidom

from example import BUILD, SOURCE, alone, fail, need_etcd

need_etcd()
with tempfile.TemporaryDirectory(prefix="rg-demo-test-") as folder:
    picture = os.path.join(folder, "demo.svg")
    output = alone("python3", os.path.join(SOURCE, "examples/demo.py"),
                   "--build", BUILD, "--svg", picture)
    if output.count("[ok]") != 6 or "[NO]" in output:
        fail("not every claim holds", output)
    lines = xml.dom.minidom.parse(picture).getElementsByTagName("polyline")
    if lines.length != 3:
        fail(f"{lines.length} curves in the picture, not 3", output)
