"""A world on several hosts that mpirun has started is carried by native where
REGROUP_TRANSPORTS names no other: shared memory inside a host, TCP between
them. The hosts are names that mpirun is given; they share this machine.

Covers: launched.c launched_hosts.c inter.c"""

import os
import re
import subprocess
import sys
import tempfile

import run

TESTS = os.environ["REGROUP_BUILD"] + "/tests/"
faults = []
folder = tempfile.TemporaryDirectory(prefix="rg-mpi-")



def own_name():
    """The command by which a host gets its name."""
    for words in ["unshare", "--uts"], ["unshare", "--uts", "--map-root-user"]:
        if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            return " ".join(words)
    run.skip("no right to give hosts names (unshare --uts)")


# In the place of ssh: HOST WORD... Each host has temporary files of its own,
# else its daemons get in each other's way, and its name, by which Open MPI 5
# tells hosts apart.
AGENT = folder.name + "/agent"
with open(AGENT, "w") as file:
    file.write(f"""#!/bin/sh
export TMPDIR={folder.name}/$1
mkdir -p "$TMPDIR"
exec {own_name()} /bin/sh -c \
    'hostname "$0" && shift && exec /bin/sh -c "$*"' "$1" "$@"
""")
os.chmod(AGENT, 0o755)


def mca(**settings):
    return [word for name, value in settings.items()
            for word in ("-mca", name, value)]


# Over shared memory Open MPI takes the ranks of two such hosts for the same.
FLAGS = mca(btl="self,tcp", btl_tcp_if_include="lo") + [
    "--host", "h1:2,h2:2", "--map-by", "ppr:2:node"]
# What Open MPI 5 starts its daemons with has another name and prefix.
LAUNCH = {"OMPI_MCA_plm_rsh_agent": AGENT,
          "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
          "PRTE_MCA_plm_ssh_agent": AGENT,
          "PRTE_MCA_plm_ssh_no_tree_spawn": "1"}


def played(program, transports, code=0, **more):
    env = dict(more, REGROUP_TRANSPORTS=transports, REGROUP_LOG="debug")
    names = [w for name in env for w in ("-x", name)]
    got, out, err = run.run("openmpi", 4,
                            [TESTS + program + "-openmpi"], *FLAGS, *names,
                            **LAUNCH, **env)
    if got != code and code is not None:
        faults.append(f"{program} over {transports} ended with {got}:\n"
                      + out + err)
    return out + err


def claim(text, *said):
    for sentence in said:
        if re.search(sentence, text) is None:
            faults.append(f'no line says "{sentence}":\n{text}')


def main():
    native = "transport native carries the world"
    claim(played("rg_alloc_memory_is_shared_under_mpirun", "native"), native,
          "is connected with rank")
    claim(played("sets_follow_communicators", "native"), native)
    claim(played("late_member_delays_no_other_set", "native"), native)
    claim(played("rg_alloc_memory_is_shared_under_mpirun",
                 "self,native,mpi"), "transport mpi carries the world")
    claim(played("rg_alloc_memory_is_shared_under_mpirun", "native,self",
                 code=None, REGROUP_INTERFACE="nosuch0"),
          "--interface nosuch0: no interface",
          "none of the transports native,self carries a world of 4 tasks on "
          "2 hosts")
    claim(played("broken_connection_ends_the_world", "native",
                 REGROUP_OP_TIMEOUT="3s"),
          r"rank 0 hears -21: .*rank 2", r"rank 2 hears -21: .*rank 0",
          r"rank 1 hears -", r"rank 3 hears -")


with folder:
    main()
for fault in faults:
    print(fault)
sys.exit(1 if faults else 0)
