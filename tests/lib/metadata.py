"""The metadata services of clouds, and a site's own, on this machine:

    with Metadata() as cloud:
        Job(["--notice", "aws", "--notice-base", cloud.url], ...)
        cloud.aws["interruption"] = {"action": "terminate", "time": stamp(120)}

They answer as their providers document it: paths, methods, headers and codes;
what is asked otherwise is refused as there, and noted in `wrong`."""

import contextlib
import http.server
import json
import threading
import time
import urllib.parse
from email.utils import formatdate

TOKEN = "AQAEAOnly-a-test=="
EVENTS = "/metadata/scheduledevents"


def stamp(seconds):
    """So many seconds from now, as RFC 3339 has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(
        time.time() + seconds))


def azure_stamp(seconds):
    return formatdate(time.time() + seconds, usegmt=True)


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, code, body=b"", **headers):
        if not isinstance(body, bytes):
            body = (body if isinstance(body, str) else
                    json.dumps(body)).encode()
        with contextlib.suppress(OSError):
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def refuse(self, code, why):
        self.server.cloud.wrong.append(f"{self.command} {self.path}: {why}")
        self.send(code)

    def take(self):
        cloud = self.server.cloud
        at = urllib.parse.urlsplit(self.path)
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size)
        cloud.asked.append((self.command, self.path))
        if cloud.breaks is not None:
            self.send(*cloud.breaks)
        elif at.path.startswith("/latest/"):
            self.take_aws(cloud, at.path)
        elif at.path.startswith("/computeMetadata/v1/"):
            self.take_gcp(cloud, at)
        elif at.path.startswith("/metadata/"):
            self.take_azure(cloud, at, body)
        elif at.path == "/site" and self.command == "GET":
            self.send(*cloud.site)
        else:
            self.refuse(404, "no such path")

    do_GET = do_PUT = do_POST = take

    # ------------------------------------------------------------------ EC2

    def take_aws(self, cloud, path):
        if path == "/latest/api/token":
            if self.command != "PUT" or not self.headers.get(
                    "X-aws-ec2-metadata-token-ttl-seconds", "").isdigit():
                self.refuse(400, "no PUT with the token's time")
            else:
                cloud.tokens += 1
                self.send(200, TOKEN)
        elif self.headers.get("X-aws-ec2-metadata-token") != TOKEN or \
                cloud.expires:
            if not cloud.expires:
                cloud.wrong.append(f"{path} without the token")
            cloud.expires = False
            self.send(401)
        else:
            found = cloud.aws.get({
                "/latest/meta-data/spot/instance-action": "interruption",
                "/latest/meta-data/events/recommendations/rebalance":
                    "rebalance"}.get(path))
            self.send(*((404, "") if found is None else (200, found)))

    # ------------------------------------------------------- Compute Engine

    def take_gcp(self, cloud, at):
        name = at.path.rsplit("/", 1)[1]
        query = dict(urllib.parse.parse_qsl(at.query))
        if self.headers.get("Metadata-Flavor") != "Google":
            self.refuse(403, "no Metadata-Flavor")
            return
        if name not in cloud.gcp:
            self.refuse(404, "no such value")
            return
        if query.get("wait_for_change") == "true":
            end = time.monotonic() + float(query.get("timeout_sec", 60))
            with cloud.news:
                cloud.waiting += 1
                cloud.news.wait_for(
                    lambda: cloud.etag(name) != query.get("last_etag") or
                    cloud.is_over, end - time.monotonic())
                cloud.waiting -= 1
        self.send(200, cloud.gcp[name], ETag=cloud.etag(name),
                  Metadata_Flavor="Google")

    # ---------------------------------------------------------------- Azure

    def take_azure(self, cloud, at, body):
        query = dict(urllib.parse.parse_qsl(at.query))
        if self.headers.get("Metadata") != "true" or \
                "api-version" not in query:
            self.refuse(400, "no Metadata: true, or no api-version")
        elif at.path == "/metadata/instance/compute/name":
            self.send(200, cloud.machine)
        elif at.path == EVENTS and self.command == "GET":
            self.send(200, {"DocumentIncarnation": len(cloud.asked),
                            "Events": cloud.events})
        elif at.path == EVENTS and self.command == "POST":
            cloud.started += [one["EventId"] for one in
                              json.loads(body)["StartRequests"]]
            if cloud.is_silent:
                cloud.ends.wait()
            self.send(200)
        else:
            self.refuse(404, "no such path")


class Metadata:
    def __init__(self, machine="vm_0"):
        self.aws = {}  # interruption, rebalance: a document
        self.tokens, self.expires = 0, False
        self.gcp = {"preempted": "FALSE", "maintenance-event": "NONE"}
        self.news, self.waiting = threading.Condition(), 0
        self.machine, self.events, self.started = machine, [], []
        self.site = (404, "")
        self.breaks = None  # (code, body) of everything
        self.asked, self.wrong = [], []
        self.is_over = False
        self.is_silent, self.ends = False, threading.Event()  # to what is started

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                      Answers)
        self.server.daemon_threads = True
        self.server.cloud = self
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,),
                         daemon=True).start()
        return self

    def __exit__(self, *_):
        with self.news:
            self.is_over = True
            self.news.notify_all()
        self.ends.set()
        self.server.shutdown()
        self.server.server_close()

    def etag(self, name):
        return f"{abs(hash((name, self.gcp[name]))):x}"

    def set_gcp(self, name, value):
        with self.news:
            self.gcp[name] = value
            self.news.notify_all()

    def event(self, kind, seconds, machine=None, **more):
        """An event of Azure."""
        return {"EventId": f"f020ba2e-3bc0-4c40-a10b-{len(self.asked):012d}",
                "EventType": kind, "ResourceType": "VirtualMachine",
                "Resources": [machine or self.machine],
                "EventStatus": "Scheduled", "NotBefore": azure_stamp(seconds),
                "Description": "", "EventSource": "Platform",
                "DurationInSeconds": -1, **more}
