"""A wheel that is built without network carries the library, and a program of
a job finds it there: with no source tree, no REGROUP_LIBRARY, and nothing in
the loader's path. One without a library says how to name one."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

import pyjob

PROGRAM = """
import sys
import regroup
assert regroup._abi.LIBRARY.startswith(sys.argv[1]), regroup._abi.LIBRARY
with regroup.init() as ctx:
    assert ctx.world.allreduce(bytearray(b"abc"), op=regroup.MAX) == b"abc"
    print(f"{regroup.__version__} among {ctx.size}")
"""


def pip(python, *arguments, **more):
    """Without index, cache, configuration and the user's own packages."""
    done = subprocess.run(
        [python, "-m", "pip", "--isolated", "--no-cache-dir",
         "--disable-pip-version-check", *arguments], check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, PIP_NO_INDEX="1", **more))
    if done.returncode != 0:
        sys.exit(f"pip {arguments} failed:\n{done.stdout}")


def install(python, folder, library):
    """Where a wheel of a copy of the sources was installed."""
    package, wheels, target = (os.path.join(folder, name) for name in
                               ("package", "wheels", "target"))
    shutil.copytree(os.path.join(os.environ["REGROUP_SOURCE"], "sdk/python"),
                    package)
    pip(python, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels,
        package, REGROUP_LIBRARY=library)
    wheel, = glob.glob(os.path.join(wheels, "*.whl"))
    pip(python, "install", "--no-deps", "--target", target, wheel)
    return wheel, target


def test():
    from house import BUILD, claim
    python = pyjob.python_with("setuptools", "wheel", "pip")
    with tempfile.TemporaryDirectory(prefix="rg-wheel-") as folder:
        os.mkdir(os.path.join(folder, "with"))
        wheel, target = install(
            python, os.path.join(folder, "with"),
            os.path.join(BUILD, "lib/libregroup.so"))
        claim("py3-none-linux" in wheel, f"{wheel} names no platform")
        names = zipfile.ZipFile(wheel).namelist()
        claim("regroup/lib/libregroup.so.0" in names and
              "regroup/py.typed" in names, f"something is missing: {names}")
        output = pyjob.job(2, [python, "-c", PROGRAM, target],
                           PYTHONPATH=target, REGROUP_LIBRARY="")
        claim(output.count("0.1.0 among 2") == 2, output)

        os.mkdir(os.path.join(folder, "without"))
        wheel, target = install(python, os.path.join(folder, "without"), "")
        claim("py3-none-any" in wheel, f"{wheel} is for one platform")
        output = pyjob.run([python, "-c", "import regroup"], 1,
                           PYTHONPATH=target, REGROUP_LIBRARY="")
        claim("ImportError" in output and "REGROUP_LIBRARY" in output, output)


pyjob.main(None, test=test)
