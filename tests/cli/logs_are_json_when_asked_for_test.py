"""--log-format json: every line of Regroup's is one JSON object with the same
names, the agent's and the workers'; what programs print keeps the worker's name
before it. REGROUP_LOG_FORMAT says it for workers alone.

Covers: log.c"""

import json
import os
import re

from house import UNTIL_FINISH, Job, claim, main, trainer

NAMES = ["time", "level", "room", "host", "rank", "size", "generation",
         "message"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
LEVELS = {"error", "warn", "info", "debug", "trace"}


def check_object(text):
    one = json.loads(text)
    claim(list(one) == NAMES, text)
    claim(TIME.fullmatch(one["time"]) and one["level"] in LEVELS, text)
    claim((one["rank"] is None) == (one["size"] is None), text)
    return one


def split(text):
    """Objects, and lines of programs."""
    lines = text.splitlines()
    objects = [check_object(line) for line in lines if line.startswith("{")]
    others = [line for line in lines if not line.startswith("{")]
    return objects, others


def run(flags, env, code=0, kill=True):
    with Job(["--min", "1", "--max", "2", *flags],
             trainer(*UNTIL_FINISH, "--step-ms", "10"),
             env={"REGROUP_LOG": "debug", **env}) as job:
        if kill:
            job.wait_step(5)
            job.kill(rank=1)
        job.finish(code)
        return split(job.text())


def test():
    objects, others = run(["--log-format", "json"], {})
    claim(all(re.match(r"\S+\.\d r[-\d]+ \| ", line) for line in others),
          str(others[:5]))
    claim(others, "the program prints its final state")
    of_agent = [o for o in objects if o["room"] == "agent"]
    of_workers = [o for o in objects if o["rank"] is not None]
    claim({o["level"] for o in of_agent} >= {"info", "debug", "warn"},
          str(of_agent[:5]))
    claim(any(o["message"].endswith("2 workers, first") and
              o["generation"] == 1 for o in of_agent), str(of_agent))
    claim(of_workers, "a worker's lines are objects, too")

    objects, others = run([], {"REGROUP_LOG_FORMAT": "json"})
    claim(objects and not any("[regroup" in line for line in others),
          str(others[:5]))

    objects, others = run([], {})
    claim(not objects and any("[regroup" in line for line in others),
          "text is the default")

    objects, _ = run(["--log-format", "json", "--etcd", "http://127.0.0.1:1"],
                     {}, code=69, kill=False)
    claim(objects[-1]["level"] == "error" and "127.0.0.1:1" in
          objects[-1]["message"], str(objects))
    claim("REGROUP_LOG_FORMAT" not in os.environ, "the test's own environment")


main(test)
