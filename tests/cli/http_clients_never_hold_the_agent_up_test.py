"""The agent's HTTP side: /metrics and /healthz by GET and HEAD, 404, 405 and
400 for the rest; endless heads, meaningless bytes and clients that send or
read nothing lose their connection, and delay no step of the job.

Covers: scrape.c scrape_request.c"""

import json
import socket
import time
import urllib.error
import urllib.request

from house import Job, claim, free_port, main, trainer, until

CLIENTS = 40  # more than the agent hears at once


def talk(place, *pieces, pause=0.0):
    """Everything that is answered; the agent closes."""
    host, port = place.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        for piece in pieces:
            try:
                sock.sendall(piece)
            except OSError:  # it has answered and closed
                break
            time.sleep(pause)
        answer = b""
        while True:
            try:
                more = sock.recv(65536)
            except ConnectionResetError:
                break
            if not more:
                break
            answer += more
    return answer


def code_of(place, *pieces, **more):
    answer = talk(place, *pieces, **more)
    head = answer.split(b"\r\n\r\n")[0]
    claim(answer.startswith(b"HTTP/1.0 ") and b"Content-Length: " in head and
          b"Connection: close" in head, f"{pieces}: {answer!r}")
    return int(answer.split()[1])


def answers(place):
    get = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
    claim(code_of(place, get % b"/metrics") == 200, "/metrics")
    claim(code_of(place, get % b"/metrics?a=b") == 200, "a query")
    claim(talk(place, get % b"/healthz").endswith(b"\r\n\r\nok\netcd up\n"),
          str(talk(place, get % b"/healthz")))
    head = talk(place, b"HEAD /metrics HTTP/1.0\r\n\r\n")
    claim(head.startswith(b"HTTP/1.0 200") and head.endswith(b"\r\n\r\n") and
          b"Content-Length: 0" not in head, str(head))
    claim(code_of(place, get % b"/") == 404, "/")
    claim(code_of(place, get % (b"/" + b"x" * 2000)) == 404, "a long path")
    post = talk(place, b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
                b"some body")
    claim(post.startswith(b"HTTP/1.0 405") and b"Allow: GET, HEAD" in post,
          str(post))
    claim(code_of(place, b"\x16\x03\x01\x02\x00") == 400, "TLS")
    claim(code_of(place, b"hello\r\n\r\n") == 400, "no HTTP")
    claim(code_of(place, b"GET /metrics HTTP/1.1\r\n", b"A: b\r\n" * 2000) ==
          400, "a head without end")
    claim(code_of(place, *[b"%c" % c for c in get % b"/metrics"],
                  pause=0.005) == 200, "byte by byte")


def gaps(job, since_ns):
    times = sorted(e["t_ns"] for e in job.events("step")
                   if e["t_ns"] >= since_ns and e["rank"] == 0)
    return max((b - a) / 1e9 for a, b in zip(times, times[1:]))


def a_crowd_that_says_nothing(job, place):
    host, port = place.rsplit(":", 1)
    crowd = [socket.create_connection((host, int(port)), timeout=20)
             for _ in range(CLIENTS)]
    began = time.monotonic_ns()
    for sock in crowd[::2]:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    claim(job.status() is not None, "an agent that answers meanwhile")
    # they lose their places after five seconds
    claim(code_of(place, b"GET /healthz HTTP/1.1\r\n\r\n") == 200, "a place")
    took = (time.monotonic_ns() - began) / 1e9
    claim(took < 15, f"a place after {took} s")
    for sock in crowd:
        sock.settimeout(20)
        claim(sock.recv(1) == b"", "a client that says nothing is cut off")
        sock.close()
    gap = gaps(job, began)
    claim(gap < 3, f"the steps stood still for {gap} s")


def reader_that_takes_nothing(place):
    host, port = place.rsplit(":", 1)
    deaf = []
    for _ in range(8):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sock.connect((host, int(port)))
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        deaf.append(sock)
    claim(code_of(place, b"GET /metrics HTTP/1.1\r\n\r\n") == 200, "a place")
    for sock in deaf:
        sock.close()


def a_place_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with Job(["-n", "1", "--metrics", str(port)], ["true"]) as job:
            job.finish(71)
            claim("--metrics" in job.text() and str(port) in job.text(),
                  job.text())


def test():
    port = free_port()
    with Job(["-n", "2", "--metrics", f"127.0.0.1:{port}"],
             trainer("--steps", "100000", "--step-ms", "5")) as job:
        job.wait_step(5)
        place = f"127.0.0.1:{port}"
        claim(job.answer()["metrics"] == place, json.dumps(job.status()))
        answers(place)
        reader_that_takes_nothing(place)
        a_crowd_that_says_nothing(job, place)
        claim(job.run("stop").returncode == 0, "stop")
        job.finish(143)
    until(lambda: not listens(place), 10, "the port is free again")
    a_place_that_is_taken()


def listens(place):
    try:
        urllib.request.urlopen(f"http://{place}/healthz", timeout=5).close()
    except (OSError, urllib.error.URLError):
        return False
    return True


main(test)
