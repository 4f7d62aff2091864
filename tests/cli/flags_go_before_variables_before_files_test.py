"""Flag > environment > file > default, and `regroup config` shows where a
value came from; an unknown variable is named, with the nearest known one, and
ignored.

Covers: settings.c config_cmd.c config.c"""

import json

from command import Claims, RunDir

FILE = """# settings of a test
detect = cloud
agent-grace = 20s   # as the flag is spelled
REGROUP_MAX_RESTARTS = 7

elastic_timeout=1h
"""


def settings(d, *flags, **variables):
    got = d.run("config", "--json", *flags, env=variables)
    claims.equal(got.returncode, 0, f"config {flags} {variables}")
    return {s["variable"]: s for s in json.loads(got.stdout)}, got.stderr


claims = Claims()
with RunDir() as d:
    path = d.path + "/regroup.conf"
    with open(path, "w") as file:
        file.write(FILE)

    found, said = settings(d)
    claims.equal(said, "", "complaints without settings")
    for name, value in (("DETECT", "auto"), ("AGENT_GRACE", "10s"),
                        ("MAX_RESTARTS", "3"), ("START_TIMEOUT", "30s"),
                        ("ELASTIC_TIMEOUT", "600s"), ("NP", None),
                        ("LOG", "warn")):
        s = found["REGROUP_" + name]
        claims.equal((s["value"], s["default"], s["origin"]),
                     (value, value, "default"), name)
        claims.hold(len(s["doc"]) > 10, name + " is documented")

    found, _ = settings(d, REGROUP_CONFIG=path)
    for name, value, line in (("DETECT", "cloud", 2), ("AGENT_GRACE", "20s", 3),
                              ("MAX_RESTARTS", "7", 4),
                              ("ELASTIC_TIMEOUT", "1h", 6)):
        s = found["REGROUP_" + name]
        claims.equal((s["value"], s["origin"], s["from"]),
                     (value, "file", f"{path}:{line}"), name)

    found, _ = settings(d, REGROUP_CONFIG=path, REGROUP_DETECT="800ms",
                        REGROUP_AGENT_GRACE="")
    s = found["REGROUP_DETECT"]
    claims.equal((s["value"], s["origin"], s["from"]),
                 ("800ms", "environment", "REGROUP_DETECT"), "variable")
    claims.equal(found["REGROUP_AGENT_GRACE"]["origin"], "file",
                 "an empty variable says nothing")

    found, _ = settings(d, "--detect", "2s", "-np", "3", REGROUP_CONFIG=path,
                        REGROUP_DETECT="800ms")
    s = found["REGROUP_DETECT"]
    claims.equal((s["value"], s["origin"], s["from"]),
                 ("2s", "flag", "--detect"), "flag")
    claims.equal(found["REGROUP_NP"]["value"], "3", "-np")

    for flag, name in (("--nproc-per-node", "SLOTS"),
                       ("--slots-per-host", "SLOTS"), ("--min-np", "MIN"),
                       ("--max-np", "MAX"), ("--np", "NP"), ("-n", "NP")):
        found, _ = settings(d, flag, "5")
        claims.equal(found["REGROUP_" + name]["value"], "5", flag)

    _, said = settings(d, REGROUP_DETEKT="1s")
    claims.hold("REGROUP_DETEKT" in said and "REGROUP_DETECT?" in said, said)
    _, said = settings(d, REGROUP_QUXQUXQUX="1")
    claims.hold("REGROUP_QUXQUXQUX" in said and "mean REGROUP" not in said,
                said)
    _, said = settings(d, REGROUP_SOCKET="/x", REGROUP_SLOT="1",
                       REGROUP_FAILPOINT="a:kill", REGROUP_LOG="info")
    claims.equal(said, "", "the library's variables are known")

    for text, why in (("detekt = 1s\n", ":1.*DETECT"), ("max\n", ":1.*="),
                      ("\n\nmin = no\n", ":3.*no")):
        with open(path, "w") as file:
            file.write(text)
        got = d.run("config", env={"REGROUP_CONFIG": path})
        claims.equal(got.returncode, 64, f"a file with {text!r}")
        claims.hold(got.stderr.count("\n") == 1, got.stderr)
        claims.hold(all(part in got.stderr for part in why.split(".*")),
                    got.stderr)

    got = d.run("config")
    claims.hold("REGROUP_DETECT" in got.stdout, "config for people")
claims.end()
