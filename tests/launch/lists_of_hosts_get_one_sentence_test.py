"""What is wrong with a list of hosts, or with the flags that go with one, is
said in one sentence: for a line with its number, before anything is started.

Covers: host_list.c"""
import os
import subprocess
import tempfile

from house import REGROUP, claim, main

WRONG = [
    (["-H", "h1:0"], 'h1:0: "0" is not a number of slots; a host has 1 to 64'),
    (["-H", "h1:2,,h2"], '"" is not the name of a host'),
    (["-H", "-oProxyCommand=x"], '"-oProxyCommand=x" is not the name of a host'),
    (["-H", "-lroot@h1"], '"-lroot@h1" is not the name of a host'),
    (["-H", "h1:40,h1:40"], "host h1 is named with 80 slots in all"),
    (["-H", "launcher"], "a host of the list is called launcher"),
    (["-H", "h1:2", "-n", "3"], "needs 3 workers, but the hosts that are "
     "listed have 2 slots; list more, or give a smaller -n"),
    (["-hostfile", "nowhere"], "the hostfile nowhere can't be read: No such"),
    (["-host", "h1:2,h2:2"], "hosts on which workers are started are listed "
     "with -H"),
    (["-H", "192.0.2.1:2", "--rsh", "/no/such/ssh -p 22"],
     "--rsh /no/such/ssh can't reach other hosts: there is no such program"),
    (["--hostfile", "nowhere"], "the hostfile nowhere can't be read: No such"),
    (["--hostfile", "{bad}"], 'bad, line 3: "slot=4" is not understood'),
    (["--hostfile", "{worse}"], 'worse, line 1: "four" is not a number of slots'),
    (["--hostfile", "{none}"], "none names no host"),
    (["--host-discovery-script", "x"], "needs the largest size of the world"),
    (["--host-discovery-script", "x", "-H", "h1", "-n", "1"],
     "leave one of them out"),
    (["--rsh", "ssh -p 2222"], "--rsh is for agents on other hosts"),
    (["--host", "h1:2,h2:2"], "hosts on which workers are started are listed "
     "with -H"),
    (["-x", "=1"], "-x =1 names no variable"),
    (["-x", "NO_SUCH"], "there is no such variable here"),
]


def test():
    with tempfile.TemporaryDirectory() as folder:
        files = {"bad": "# hosts\nh1 slots=4\nh2 slot=4\n",
                 "worse": "h1:four", "none": "# nobody\n\n"}
        for name, text in files.items():
            with open(os.path.join(folder, name), "w",
                      encoding="ascii") as file:
                file.write(text)
        paths = {name: os.path.join(folder, name) for name in files}
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("REGROUP_")}
        env["REGROUP_RUN_DIR"] = os.path.join(folder, "run")
        for flags, sentence in WRONG:
            words = [word.format(**paths) for word in flags]
            done = subprocess.run([REGROUP, "run", *words, "--", "true"],
                                  env=env, cwd=folder, capture_output=True,
                                  text=True, timeout=20, check=False)
            claim(done.returncode == 64, (words, done))
            claim(sentence in done.stderr, (words, done.stderr))
            claim(done.stderr.count("\n") == 1, done.stderr)


main(test)
