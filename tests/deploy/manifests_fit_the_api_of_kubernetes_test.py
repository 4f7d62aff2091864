"""Every field of the manifests is one that the API of Kubernetes has, with a
value of its type, and none that it requires is missing (kubernetes.json, which
make_schema.py writes), and every value one that the API server accepts. What
they say of each other fits: selectors, services, ports, volumes, settings of
Regroup, and the time that a pod has for leaving.

Covers: statefulset.yaml etcd.yaml job.yaml"""

import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["REGROUP_SOURCE"], "tests/cli"))
from command import REGROUP, SOURCE, Claims, clean_environment, skip

try:
    import yaml
except ImportError:
    skip("no yaml for this Python; ci/install installs python3-yaml")

TERM_S = 5  # between SIGTERM and SIGKILL of a worker
KINDS = {"str": str, "bool": bool, "int": int, "object": object,
         "datetime": str}
with open(os.path.join(os.path.dirname(__file__), "kubernetes.json"),
          encoding="ascii") as file:
    SCHEMA = json.load(file)


def faults_of(text, value, where):
    """What is wrong with a value that should be of the type `text`."""
    of = re.match(r"(List|Dict)\[(?:str, )?(.*)\]$", text)
    if of:
        if not isinstance(value, {"List": list, "Dict": dict}[of.group(1)]):
            return [f"{where} is no {of.group(1)}"]
        items = value.items() if of.group(1) == "Dict" else enumerate(value)
        return [fault for key, item in items
                for fault in faults_of(of.group(2), item, f"{where}.{key}")]
    if text in KINDS:
        fits = isinstance(value, KINDS[text]) and \
            isinstance(value, bool) <= (text in ("bool", "object"))
        return [] if fits else [f"{where} is no {text}: {value!r}"]
    if text not in SCHEMA["objects"]:
        return [f"{where}: kubernetes.json lacks {text}; run make_schema.py"]
    if not isinstance(value, dict):
        return [f"{where} is no {text}"]
    fields = SCHEMA["objects"][text]
    found = [f"{where}.{name} is missing" for name, (_, is_required)
             in fields.items() if is_required and name not in value]
    for name, inner in value.items():
        found += faults_of(fields[name][0], inner, f"{where}.{name}") \
            if name in fields else [f"{where} has no field {name}"]
    return found


def faults_of_manifest(manifest, where):
    root = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
    if root not in SCHEMA["roots"]:
        return [f"{where}: {root} is not known"]
    return faults_of(SCHEMA["roots"][root], manifest, where)


# What the API server accepts of texts, and of fields beside each other; the
# schema knows neither.
VALUES = {"podManagementPolicy": {"OrderedReady", "Parallel"},
          "completionMode": {"NonIndexed", "Indexed"},
          "podReplacementPolicy": {"TerminatingOrFailed", "Failed"},
          "restartPolicy": {"Always", "OnFailure", "Never"},
          "action": {"FailJob", "FailIndex", "Ignore", "Count"},
          "operator": {"In", "NotIn"}}


def faults_of_values(value, where):
    if isinstance(value, list):
        return [fault for i, item in enumerate(value)
                for fault in faults_of_values(item, f"{where}.{i}")]
    if not isinstance(value, dict):
        return []
    found = [f"{where}.{name} is {text!r}, none of {sorted(VALUES[name])}"
             for name, text in value.items()
             if name in VALUES and text not in VALUES[name]]
    return found + [fault for name, item in value.items()
                    for fault in faults_of_values(item, f"{where}.{name}")]


def faults_of_job(spec, where):
    """What stands beside a podFailurePolicy; that a Job's pods may end; an
    index for each completion."""
    pod = spec["template"]["spec"]
    found = []
    if pod.get("restartPolicy") not in ("OnFailure", "Never"):
        found.append(f"{where}: the pods of a Job are never at their end")
    if "podFailurePolicy" in spec:
        if spec.get("podReplacementPolicy", "Failed") != "Failed":
            found.append(f"{where}.podReplacementPolicy is not Failed, the "
                         "only value beside a podFailurePolicy")
        if pod.get("restartPolicy") != "Never":
            found.append(f"{where}: podFailurePolicy needs restartPolicy Never")
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        codes = rule.get("onExitCodes", {}).get("values", [1])
        if codes != sorted(set(codes)) or 0 in codes:
            found.append(f"{where}: exit codes {codes}")
    return found


def break_one(manifest):
    """The checker notices each of these."""
    def broken(change):
        copy = json.loads(json.dumps(manifest))
        change(copy["spec"])
        return faults_of_manifest(copy, "broken")
    claims.hold(broken(lambda spec: spec.update(replica=3)), "a wrong name")
    claims.hold(broken(lambda spec: spec.update(replicas="3")), "a wrong type")
    claims.hold(broken(lambda spec: spec.pop("template")), "a missing field")
    claims.hold(broken(lambda spec: spec["template"]["spec"]["containers"][0]
                       ["ports"][0].pop("containerPort")), "one deep inside")


def seconds(text):
    return int(re.match(r"(\d+)s$", text).group(1))


def look_at_pod(where, pod, claimed):
    """claimed: names of the volumes that each pod has of its own."""
    spec = pod["spec"]
    volumes = {v["name"] for v in spec.get("volumes", [])} | claimed
    for container in spec["containers"]:
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        mounts = {m["name"] for m in container.get("volumeMounts", [])}
        claims.hold(mounts <= volumes, f"{where} mounts {mounts}")
        for name, probe in container.items():
            if name.endswith("Probe"):
                claims.hold(probe["httpGet"]["port"] in ports,
                            f"{name} of {where} asks {probe}")
        if container["name"] == "agent":
            look_at_agent(where, spec, container, ports)


def look_at_names_in_values(where, env):
    """$(NAME) is replaced only where NAME comes before it; that of an index
    comes last."""
    known = set()
    for e in env:
        used = set(re.findall(r"\$\((\w+)\)", e.get("value", "")))
        claims.hold(used <= known, f"{where}: {e['name']} uses {used - known}")
        known.add(e["name"])


def look_at_agent(where, spec, agent, ports):
    look_at_names_in_values(where, agent["env"])
    env = {e["name"]: e.get("value") for e in agent["env"]}
    for name in env:
        claims.hold(name in SETTINGS, f"{where}: no setting {name}")
    claims.equal(env["REGROUP_METRICS"], f"0.0.0.0:{ports['health']}",
                 f"{where} shows its health")
    for probe in "startupProbe", "livenessProbe":
        claims.equal(agent[probe]["httpGet"],
                     {"path": "/healthz", "port": "health"}, probe)
    grace = spec["terminationGracePeriodSeconds"]
    deadline = seconds(env["REGROUP_DEADLINE"])
    hook = agent["lifecycle"]["preStop"]["exec"]["command"][-1]
    sleep = int(re.search(r"sleep (\d+)$", hook).group(1))
    claims.hold(deadline + TERM_S < sleep < grace,
                f"{where}: deadline {deadline}, hook {sleep}, grace {grace}")
    claims.hold(">/run/regroup/notice" in hook, f"{where}: no notice: {hook}")


claims = Claims()
SETTINGS = subprocess.run([REGROUP, "config"], check=True, text=True,
                          capture_output=True, env=clean_environment()).stdout
paths = sorted(glob.glob(SOURCE + "/deploy/kubernetes/*.yaml"))
claims.hold(len(paths) >= 3, f"manifests are {paths}")
for path in paths:
    with open(path, encoding="ascii") as file:
        manifests = list(yaml.safe_load_all(file))
    base = os.path.basename(path)
    for manifest in manifests:
        faults = faults_of_manifest(manifest, base) + \
            faults_of_values(manifest, base)
        if manifest["kind"] == "Job":
            faults += faults_of_job(manifest["spec"], base)
        for fault in faults:
            claims.hold(False, fault)
    if claims.failed:
        claims.end()
        sys.exit(1)
    headless = {m["metadata"]["name"]: m["spec"] for m in manifests
                if m["kind"] == "Service"}
    for manifest in manifests:
        spec = manifest["spec"]
        if "template" not in spec:
            continue
        labels = spec["template"]["metadata"]["labels"]
        service = headless[spec.get("serviceName") or
                           spec["template"]["spec"]["subdomain"]]
        claims.equal(service["clusterIP"], "None", f"{base} is headless")
        claims.equal(service["selector"], labels, f"{base}: whom it selects")
        if "selector" in spec:
            claims.equal(spec["selector"]["matchLabels"], labels, base)
        if manifest["kind"] == "StatefulSet":
            break_one(manifest)
        look_at_pod(base, spec["template"], {
            claim["metadata"]["name"]
            for claim in spec.get("volumeClaimTemplates", [])})
claims.end()
