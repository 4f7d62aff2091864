"""`regroup run -H` gives agents on other hosts the user's variables, byte for
byte: many lines, quotes, bytes that are no UTF-8, functions of bash, the longest
value that a process may have. Those of the machine, the login, the terminal and
an outer launcher stay here. --export-all no brings those of -x alone, and -x
also takes the beginning of names. No value is on a command line.

Covers: exports.c letter.c remote_cmd.c"""
import os
import re

from house import claim, main, need_etcd
from launching import LaunchedJob

LONGEST = b"x" * (128 * 1024 - 1 - len(b"LONGEST="))  # MAX_ARG_STRLEN
TRAVELS = {b"PLAIN": b"1", b"EMPTY": b"", b"LINES": b"one\ntwo\n\n three",
           b"QUOTED": b"a 'b' \"c\" $HOME `d` \\ e=f", b"BYTES": b"\xff\xfe\xe9",
           b"BASH_FUNC_told%%": b"() {  echo told\n}", b"LONGEST": LONGEST,
           b"SLURM_JOB_ID": b"17", b"OMPI_MCA_btl": b"self,tcp"}
STAYS = {b"HOME": b"/here", b"HOSTNAME": b"here", b"TMPDIR": b"/here/tmp",
         b"SSH_AUTH_SOCK": b"/here/sock", b"XDG_RUNTIME_DIR": b"/here/run",
         b"DISPLAY": b":0", b"SLURM_PROCID": b"3", b"PMI_RANK": b"3",
         b"OMPI_COMM_WORLD_RANK": b"3", b"PMIX_RANK": b"3",
         b"NOTIFY_SOCKET": b"/here/notify", b"REGROUP_NOTHING": b"1"}
SECRET = b"a-secret-of-nobody"
SHOW = ("import os,sys;sys.stdout.flush();"
        "open('found-%s' % os.environ['REGROUP_SLOT'],'wb')"
        ".write(b'\\0'.join(b'='.join(v) for v in os.environb.items()));"
        "open('words','ab').write(b''.join(open('/proc/%s/cmdline' % p,'rb')"
        ".read() for p in os.listdir('/proc') if p.isdigit() and"
        " os.path.exists('/proc/%s/cmdline' % p)))")


def found_with(flags):
    """Variables of a worker on another host."""
    env = {**TRAVELS, **STAYS, b"SECRET": SECRET}
    job = LaunchedJob(["-H", "h1:1", *flags], ["python3", "-c", SHOW])
    job.env = {**{os.fsencode(k): os.fsencode(v) for k, v in job.env.items()},
               **env}
    with job:
        job.finish(0)
        job.await_none()
        with open(job.path("words"), "rb") as file:
            claim(SECRET not in file.read(), "a value is on a command line")
        with open(job.path("found-0"), "rb") as file:
            return dict(line.split(b"=", 1)
                        for line in file.read().split(b"\0"))


def all_travel():
    found = found_with(["-x", "TOLD=x"])
    for name, value in TRAVELS.items():
        claim(found.get(name) == value,
              f"{name} is {found.get(name, b'not there')[:200]}")
    claim(found[b"SECRET"] == SECRET and found[b"TOLD"] == b"x", "-x")
    for name, value in STAYS.items():
        claim(found.get(name) != value, f"{name} has travelled")


def named_travel():
    found = found_with(["--export-all", "no", "-x", "OMPI_MCA*", "-x", "LINES",
                        "-x", "HOM*"])
    claim({name for name in {**TRAVELS, **STAYS} if name in found} ==
          {b"OMPI_MCA_btl", b"LINES", b"HOME"}, sorted(found))
    claim(found[b"LINES"] == TRAVELS[b"LINES"] and found[b"HOME"] == b"/here",
          "values")


def nothing_begins_so():
    with LaunchedJob(["-H", "h1:1", "-x", "NO_SUCH*"], ["true"]) as job:
        job.finish(64)
        claim(re.search(r"-x NO_SUCH\*: there is no such variable here",
                        job.text()), job.text())


def test():
    need_etcd()
    all_travel()
    named_travel()
    nothing_begins_so()


main(test)
