"""An agent that starts waits for an etcd that takes connections and answers
late, as while a thousand agents come at once, for as long as the first world
waits (--start-timeout), not only for 5 s at first and 10 s to open the job;
then it leaves with 69.

Covers: open_job.c health.c talk.c"""
import socket
import threading
import time

from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

FIRST_S, OPEN_S = 5, 10  # for an etcd that takes no connection
TRAIN = trainer(*UNTIL_FINISH, "--step-ms", 5)


def copy(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class Gate(threading.Thread):
    """Takes all connections, and answers the next `passes` ones."""

    def __init__(self, etcd, passes):
        super().__init__(daemon=True)
        self.etcd, self.passes = etcd, passes
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.held = []
        self.start()

    def run(self):
        while True:
            client = self.listener.accept()[0]
            self.held.append(client)
            if self.passes == 0:
                continue
            self.passes -= 1
            server = socket.create_connection(("127.0.0.1", self.etcd.port))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()


def job_on(gate, name, start_timeout):
    job = Job(["-n", "1", "--etcd", gate.url, "--start-timeout",
               start_timeout], TRAIN, job=name)
    job.command[1] = "agent"  # `run` is for a user, and asks for 5 s
    return job


def test():
    with Etcd() as etcd:
        late, never = Gate(etcd, 0), Gate(etcd, 1)
        with job_on(late, "late", "600s") as job, \
                job_on(never, "never", "12s") as other:
            until(lambda: late.held, 20, "the first question")
            time.sleep(FIRST_S + 1)  # the silence is the fault
            claim(job.process.poll() is None, job.text())
            until(lambda: "does not answer yet" in job.text(), 20, "a word")
            late.passes = 1
            until(lambda: "etcd does not answer" in job.text(), 30,
                  "a silence while the job is opened")
            time.sleep(OPEN_S)
            claim(job.process.poll() is None, job.text())
            late.passes = 1 << 30
            job.wait_step(5)
            job.let_finish()
            job.finish()
            other.finish(69)
            said = other.text().split("does not answer for ")
            claim(len(said) == 2 and int(said[1].split(" s")[0]) >= 12,
                  other.text())


main(test)
