"""A CA of a test's own and what it signs, made with the openssl command.

    ca = Authority(folder)
    server = ca.sign("server", names=["IP:127.0.0.1"])
    server.cert, server.key, ca.cert   # paths of PEM files
"""

import os
import shutil
import subprocess

from house import skip

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
DAYS = ["-days", "2"]


def need_openssl():
    if shutil.which("openssl") is None:
        skip("openssl is not installed (ci/install installs it)")


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True,
                   timeout=60)


class Pair:
    """A certificate and its key."""

    def __init__(self, folder, name):
        self.cert = os.path.join(folder, f"{name}.pem")
        self.key = os.path.join(folder, f"{name}.key")


class Authority(Pair):
    def __init__(self, folder, name="ca"):
        super().__init__(folder, name)
        self.folder = folder
        openssl("req", "-x509", *CURVE, *DAYS, "-nodes", "-subj", f"/CN={name}",
                "-keyout", self.key, "-out", self.cert)

    def sign(self, name, subject="/O=test", names=(), passphrase=None):
        """subject: with or without a CommonName; names: of a server."""
        pair = Pair(self.folder, name)
        request = os.path.join(self.folder, f"{name}.csr")
        about = os.path.join(self.folder, f"{name}.ext")
        secret = ["-passout", f"pass:{passphrase}"] if passphrase else ["-nodes"]
        openssl("req", "-new", *CURVE, *secret, "-subj", subject, "-keyout",
                pair.key, "-out", request)
        with open(about, "w", encoding="ascii") as file:
            if names:
                file.write(f"subjectAltName={','.join(names)}\n")
            file.write("extendedKeyUsage=serverAuth,clientAuth\n")
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey",
                self.key, "-CAcreateserial", *DAYS, "-extfile", about, "-out",
                pair.cert)
        return pair
