"""https endpoints, certificates on both sides and a password: a client goes
through the loss of a leader and of all tokens as it does over plain HTTP; and
it speaks HTTP/1.1 where a server offers HTTP/2, so that a watch is a connection
of its own.

Covers: http.c"""
import os
import socket
import ssl
import subprocess
import tempfile

from certificates import Authority, need_openssl
from chain import Chain
from etcd_cluster import Cluster
from house import BUILD, claim, main, until

PASSWORD = "p"


def outage(ca, server, client):
    with Cluster(tls=(server, ca, client)) as etcds:
        etcds.turn_auth_on(PASSWORD)
        leader = etcds.leader()
        members = [leader] + etcds.followers()
        with Chain(etcds, members, "root", PASSWORD) as chain:
            chain.wait_writes()
            leader.kill()
            etcds.log_in(PASSWORD)
            chain.wait_writes(50)
            for member in etcds.members:
                member.kill()
            for member in etcds.members:
                member.start()
            etcds.wait_ready()
            etcds.log_in(PASSWORD)
            chain.wait_writes(50)
            saw = chain.finish()
    print(saw)
    claim(saw["wipes"] == 0 and saw["leases_lost"] == 0,
          "it lost its lease, or took the store for another one")


def offered_http2(ca, server):
    """What a client of ours agrees to where both are offered."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert, server.key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(20)
        client = subprocess.Popen(
            [os.path.join(BUILD, "tests", "chain"), "--endpoints",
             f"https://127.0.0.1:{door.getsockname()[1]}", "--cacert", ca.cert])
        try:
            with context.wrap_socket(door.accept()[0],
                                     server_side=True) as link:
                until(lambda: link.recv(64).startswith(b"POST /v3/"), 5,
                      "a request of HTTP/1.1")
                return link.selected_alpn_protocol()
        finally:
            client.kill()
            client.wait()


def test():
    need_openssl()
    with tempfile.TemporaryDirectory(prefix="rg-tls-") as folder:
        ca = Authority(folder)
        server = ca.sign("server", names=["IP:127.0.0.1"])
        client = ca.sign("client")  # without a CommonName
        agreed = offered_http2(ca, server)
        claim(agreed == "http/1.1", f"{agreed} was agreed upon")
        outage(ca, server, client)


main(test)
