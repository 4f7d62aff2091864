"""`regroup dump` names the rank that has not started what the others wait in,
on the last of a hundred sets, with the stacks of its Python threads; it answers
while a worker is stopped, shows what a killed worker did last, and is written
to a file by itself when a deadline ends a generation. More dumps at once than
an agent makes are refused.

Covers: base/record.c recorder.c dump.c dump_record.c dump_stacks.c dump_text.c
host_part.c dump/serve.c dump_cmd.c answer.c"""
import concurrent.futures
import glob
import json
import os
import signal
import sys
import time


def dumps_of(folder):
    """Those of the first generation's end."""
    return glob.glob(os.path.join(folder, "dump-*-g1.txt"))


def work(folder):
    import regroup

    def held_in_python():
        while not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.02)

    with regroup.init(elastic=True) as ctx:
        def train():
            ctx.world.barrier()
            if ctx.generation == 1:
                sets = [ctx.set([0, 1], f"s{i}") for i in range(100)]
                for one in sets:
                    one.barrier()
                if ctx.rank == 1:
                    held_in_python()
                sets[-1].barrier()
                while ctx.rank == 1 and not dumps_of(folder):
                    time.sleep(0.02)
                ctx.world.barrier(deadline=0.3)
            while not os.path.exists(os.path.join(folder, "end")):
                ctx.world.barrier()
                time.sleep(0.02)
            raise SystemExit(0)
        ctx.state().run(train)


def touch(folder, name):
    with open(os.path.join(folder, name), "w", encoding="ascii"):
        pass


def test():
    import pyjob
    from house import Job, claim, until
    with Job(["--min", "2", "--max", "2", "--output", "."],
             pyjob.command("."), env=pyjob.environment(),
             job="dumped") as job:
        def dump(*flags):
            shown = job.run("dump", "--json", *flags, "dumped")
            return json.loads(shown.stdout) if shown.returncode == 0 else {}

        def differences():
            return [d["text"] for d in
                    dump("--no-stacks").get("differences", [])
                    if "NOT by rank 1" in d["text"]]
        said = until(differences, 20, "a dump that names rank 1")
        claim("barrier: started by rank 0, NOT" in said[0], said)

        text = job.run("dump", "dumped").stdout
        claim(">> set s99: operation 2, barrier" in text, text)
        claim("held_in_python" in text, "Python stacks are missing")
        claim("rg__futex_wait_any" in text or "wchan" in text,
              "C stacks are missing")
        claim("stacks" not in json.dumps(dump("--no-stacks")),
              "stacks that were not wanted")
        for words, code in ((("dump", "none-of-that-name"), 64),
                            (("dump", "dumped", "more"), 64),
                            (("dump", "--stacks"), 64)):
            claim(job.run(*words).returncode == code, words)

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            many = list(pool.map(lambda _: job.run("dump", "dumped"),
                                 range(12)))
        for shown in many:
            if shown.returncode != 0:
                claim(shown.returncode == 71 and shown.stdout == ""
                      and "as many dumps as it can" in shown.stderr, shown)
        claim({shown.returncode for shown in many} == {0, 71},
              "twelve dumps at once: some are made, some are refused")

        stopped = job.kill(1, signal.SIGSTOP)
        began = time.monotonic()
        claim(len(dump()["hosts"][0]["workers"]) == 2, "both are shown")
        claim(time.monotonic() - began < 12, "a stopped worker held it up")
        os.kill(stopped, signal.SIGCONT)
        claim(not glob.glob(os.path.join(job.folder, "dump-*")),
              "a dump was written while all was well")

        touch(job.folder, "go")
        path = until(lambda: dumps_of(job.folder), 20,
                     "the dump of a deadline")
        with open(path[0], encoding="utf-8") as file:
            text = file.read()
        claim("a deadline has passed" in text and
              ">> set world: operation" in text and "NOT by rank 1" in text,
              text)
        claim("what the workers did in generation 1" in job.text(), "the log")

        killed = job.kill(1)
        def shows_killed():
            return [w for h in dump("--no-stacks").get("hosts", [])
                    for w in h["workers"]
                    if w["pid"] == killed and not w["alive"] and w["sets"]]
        until(shows_killed, 20, "what the killed worker did last")
        touch(job.folder, "end")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2])
    else:
        sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"],
                                        "tests", "lib"))
        test()
