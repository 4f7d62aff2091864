"""A worker writes all over the memory from which its agent reads operations,
spans and metrics: dumps and status are answered, timelines and files of metrics
stay whole, and the agent lives.

Covers: dump_record.c dump_text.c timeline.c scalars.c step_times.c"""
import json
import os

from house import BUILD, Job, claim, main, until


def test():
    with Job(["-n", "2", "--timeline", "t.json", "--metrics-csv", "m.csv",
              "--metrics-tensorboard", "events", "--metrics", "0"],
             [os.path.join(BUILD, "tests", "scribbler")]) as job:
        until(lambda: "it scribbles" in job.text(), 20, "the scribbler")
        agent = job.agent()

        def whole(*words):
            shown = job.run(*words, "test")
            claim(shown.returncode == 0, f"{words}: {str(shown)[-2000:]}")
            return shown.stdout
        dumped = 0
        for i in range(12):
            document = json.loads(whole("dump", "--no-stacks", "--json"))
            dumped += len(document["hosts"][0]["workers"])
            text = whole("dump", "--no-stacks")
            claim("job test" in text and
                  all(c == "\n" or c >= " " for c in text), text)
            json.loads(whole("status", "--json"))
            whole("timeline", "stop")
            with open(os.path.join(job.folder, "t.json" if i == 0 else
                                   f"t{i}.json"), "rb") as file:
                json.loads(file.read())
            path = os.path.join(job.folder, f"t{i + 1}.json")
            claim(job.run("timeline", "start", path, "test").returncode == 0,
                  "a timeline begins")
        claim(dumped >= 12, f"only {dumped} workers were shown")
        with open(os.path.join(job.folder, "m.csv"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        claim(all(line.count(",") == 4 for line in lines), str(lines))
        claim(job.agent() == agent, "the agent was replaced")
        claim(job.run("stop", "test").returncode == 0, "stop")


main(test)
