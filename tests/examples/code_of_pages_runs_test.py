"""The code on the pages about training runs as it stands there, in programs
that have what it leaves out: the batch whose samples are counted once, whatever
happens to the workers, the loop in main in C and Python, gradients in a
reducer, sparse ones, and the elastic program of torch. A worker is killed in
each elastic one.

Covers: docs/training.md docs/reducer.md docs/torch.md"""
import os
import re
import subprocess
import sys
import tempfile

from example import BUILD, SOURCE, fail, job, need_etcd

C = """
#include <regroup/regroup.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NEED(it) if (!(it)) { fprintf(stderr, "not so: %%s\\n", #it); abort(); }
#define OK(it) NEED((it) == RG_OK)
"""

TRAINING = C + """
static rg_ctx *ctx;
static rg_sampler *sampler;
static struct { uint64_t step; double seen; } m;

static rg_status train_step(void *unused)
{
    const uint64_t epoch = m.step / 4, k = m.step %% 4, count = 1;
    float gradient[1] = {0};
    rg_status st;
    (void)unused;
    if (m.step == 50 && rg_generation(ctx) == 1 && rg_rank(ctx) == 1)
        raise(SIGKILL);
    %s
    if (st != RG_OK)
        return st;
    NEED(samples == (k < 3 ? 3 : 1) && gradient[0] <= 9 * (float)samples);
    m.seen += gradient[0];
    m.step++;
    return RG_OK;
}

static void report(rg_state *state, uint64_t step, void *unused)
{
    (void)state, (void)unused;
    if (rg_rank(ctx) == 0 && step == 200)
        printf("200 steps, %%g\\n", m.seen);
}

int main(void)
{
    rg_params params = {.size = sizeof params, .elastic = 1};
    rg_sampler_params deals = {.size = sizeof deals, .count = 10, .batch = 3};
    rg_state *state;
    OK(rg_init(&params, &ctx));
    OK(rg_state_create(ctx, NULL, &state));
    OK(rg_state_add(state, "m", &m, sizeof m, NULL));
    OK(rg_state_on_commit(state, report, NULL));
    OK(rg_sampler_create(state, &deals, &sampler));
    %s
}
"""

REDUCER = C + """
static float value[2];

static void backward(int i, void *gradient)
{
    memcpy(gradient, (float[]){value[0] + (float)i, value[1]},
           sizeof(float) * (size_t)(1 + i));
}

static void update(float *table, uint64_t at, const float *row)
{
    table[at] += row[0];
}

int main(void)
{
    const int n = 2;
    const char *name[] = {"a", "b"};
    const uint64_t count[] = {1, 2};
    void *grad[2];
    rg_ctx *ctx;
    rg_status st;
    OK(rg_init(NULL, &ctx));
    value[0] = (float)rg_rank(ctx);
    value[1] = (float)rg_rank(ctx) * 2;
    %s
    OK(st);
    const float *a = grad[0], *b = grad[1];
    NEED(a[0] == 0.5f && b[0] == 1.5f && b[1] == 1);
    rg_reducer_destroy(reducer);
    {
        rg_set *set = rg_world(ctx);
        float table[3] = {0}, rows[] = {2, 6};
        const uint64_t at[] = {2, (uint64_t)rg_rank(ctx)}, width = 1;
        const uint64_t n = rg_rank(ctx) == 0 ? 1 : 2;
        %s
        NEED(table[0] == 0 && table[1] == 3 && table[2] == 2);
    }
    if (rg_rank(ctx) == 0)
        puts("reduced");
    OK(rg_finalize(ctx));
}
"""

LOOP = """
import os, signal
import numpy, regroup
ctx = regroup.init(elastic=True)
state = ctx.state()
step = state.add("step", numpy.zeros(1, "i8"))

def train_step():
    if step[0] == 50 and ctx.generation == 1 and ctx.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    assert ctx.world.allreduce(step.copy())[0] == step[0] * ctx.size

%s
if ctx.rank == 0:
    print(f"{step[0]} steps")
"""

TORCH = """
import os, signal
import regroup, regroup.torch, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
EPOCHS = 3
torch.manual_seed(1)
x = torch.randn(1024, 2)
data = TensorDataset(x, x.sum(1, keepdim=True))
loss = torch.nn.functional.mse_loss
model = torch.nn.Linear(2, 1)
before = model.weight.detach().clone()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

steps = []
def die(step):
    steps.append(step)
    if step == 4 and ctx.generation == 1 and ctx.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

made = regroup.torch.State.__init__
def watched(self, **objects):
    made(self, **objects)
    self.on_commit(die)
regroup.torch.State.__init__ = watched
%s
nearer = ((model.weight - 1).abs() < (before - 1).abs()).all()
print(f"{steps[-1]} steps, learned {nearer}")
"""


def blocks(page, kind):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
        return re.findall(rf"^```{kind}\n(.*?)^```$", file.read(), re.S | re.M)


def once(text, old, new):
    if text.count(old) != 1:
        fail(f"{old!r} is there {text.count(old)} times", text)
    return text.replace(old, new)


def program(folder, name, source):
    """Built against the library of the build."""
    path = os.path.join(folder, name)
    with open(path + ".c", "w", encoding="utf-8") as file:
        file.write(source)
    lib = os.path.join(BUILD, "lib")
    done = subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", path + ".c", "-o", path,
         "-I", os.path.join(SOURCE, "sdk/include"), "-L", lib, "-lregroup",
         f"-Wl,-rpath,{lib}"], capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"{name} is no program", done.stderr)
    return [path]


def script(folder, name, source):
    path = os.path.join(folder, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    return ["env", "PYTHONPATH=" + os.path.join(SOURCE, "sdk/python"),
            "REGROUP_LIBRARY=" + os.path.join(BUILD, "lib/libregroup.so"),
            "/usr/bin/python3", path]


def has(module):
    return subprocess.run(["/usr/bin/python3", "-c", f"import {module}"],
                          capture_output=True, check=False).returncode == 0


def expect(output, line):
    if f"| {line}\n" not in output:
        fail(f"does not print: {line}", output)


def main():
    elastic = ["-n", "2", "--"]
    with tempfile.TemporaryDirectory(prefix="rg-pages-") as folder:
        batch, loop = blocks("docs/training.md", "c")
        batch = once(batch, "/* gradient[]", "for (uint64_t i = 0; st == RG_OK "
                     "&& i < n; i++) gradient[0] += (float)mine[i];\n"
                     "/* gradient[]")
        # 50 epochs of ten samples, which are 45 together
        expect(job(*elastic, *program(folder, "training",
                                      TRAINING % (batch, loop))),
               f"200 steps, {50 * 45}")
        dense, sparse = blocks("docs/reducer.md", "c")
        expect(job(*elastic, *program(folder, "reducer",
                                      REDUCER % (dense, sparse))), "reduced")
        if has("numpy"):
            [python] = blocks("docs/training.md", "python")
            expect(job(*elastic, *script(folder, "loop", LOOP % python)),
                   "200 steps")
        if has("torch"):
            text = blocks("docs/torch.md", "python")[1]
            expect(job(*elastic, *script(folder, "of_torch", TORCH % text)),
                   "12 steps, learned True")


need_etcd()
if "libasan" in subprocess.run(
        ["ldd", os.path.join(BUILD, "lib/libregroup.so")],
        capture_output=True, text=True, check=True).stdout:
    print("skipped: a plain program can't load a library with AddressSanitizer")
    sys.exit(77)
main()
