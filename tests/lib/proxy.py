"""Between an agent and its etcd: passes requests on, and what can befall them
on their way.

    proxy = Proxy(etcd.port)
    Job([..., "--etcd", proxy.url], ...)
    proxy.lose_answer_about("/regroup/v1/test/lead/host/h1")
"""

import base64
import re
import socket
import threading
import time

VALUE = re.compile(rb'"value":"([A-Za-z0-9+/=]+)"')


class Proxy:
    def __init__(self, port, address="127.0.0.1"):
        self.upstream = (address, port)
        self.word = None  # of the request whose answer is to be lost
        self.has_lost = threading.Event()
        self.late_s = 0  # that each answer takes more,
        self.handshake_s = 0  # and the first bytes of each connection
        self.closes = False  # a connection after one answer; watches go on
        self.written = []  # values that requests have put
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def lose_answer_about(self, key):
        """Once: etcd does what it is asked, but its answer is lost."""
        self.word = base64.b64encode(key.encode())

    def serve(self):
        while True:
            client = self.listener.accept()[0]
            server = socket.create_connection(self.upstream)
            pair = Pair(self, client, server)
            for way in (pair.pass_requests, pair.pass_answers):
                threading.Thread(target=way, daemon=True).start()


class Pair:
    """One connection of the client, and its own to etcd."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.is_watch = self.is_lost = False

    def close(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def pass_requests(self):
        proxy = self.proxy
        try:
            time.sleep(proxy.handshake_s)
            while data := self.client.recv(1 << 16):
                self.is_watch = self.is_watch or b"POST /v3/watch" in data
                if proxy.word and proxy.word in data:
                    proxy.word = None
                    self.is_lost = True
                    proxy.has_lost.set()
                proxy.written += map(base64.b64decode, VALUE.findall(data))
                self.server.sendall(data)
        except OSError:
            pass
        self.close()

    def pass_answers(self):
        try:
            while data := self.server.recv(1 << 16):
                time.sleep(self.proxy.late_s)
                if not self.is_lost:
                    self.client.sendall(data)
                if self.proxy.closes and not self.is_watch:
                    break
        except OSError:
            pass
        self.close()
