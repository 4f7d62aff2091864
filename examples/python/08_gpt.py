"""A small GPT in torch that learns a text, character by character, on workers
that come and go.

    regroup run --min 1 --max 2 python3 examples/python/08_gpt.py

Rank 0 prints, after its worker's name,

    epoch 1 loss 1.9621 (generation 1, 2 workers)
    final loss 1.6718 state e5a2f53fcada6c08
    writes: The harbour

Gradients live in the buckets of a Reducer, and are added up over all ranks
while backward runs. Kill a worker meanwhile: the other one keeps its process,
goes back to the last commit, and a replacement joins it. With -n 2 in place of
--min 1 --max 2 it waits for the replacement, and ends with the same state as if
no worker had died.
"""

import argparse
import hashlib
import pathlib
import time

import regroup
import regroup.torch
import torch

TEXT = pathlib.Path(__file__).parent.parent / "data/harbour.txt"
POSITIONS, CHANNELS, HEADS, LAYERS = 32, 32, 4, 1


def read_flags():
    flags = argparse.ArgumentParser()
    flags.add_argument("--text", default=TEXT, type=pathlib.Path)
    flags.add_argument("--epochs", type=int, default=2)
    flags.add_argument("--batch", type=int, default=32)
    flags.add_argument("--step-ms", type=int, default=0)
    return flags.parse_args()


class Text(torch.utils.data.Dataset):
    """Its pieces of POSITIONS characters, each with the characters behind."""

    def __init__(self, path):
        text = path.read_text(encoding="utf-8")
        self.letters = sorted(set(text))
        self.numbers = torch.tensor([self.letters.index(c) for c in text])

    def __len__(self):
        return len(self.numbers) - POSITIONS

    def __getitem__(self, at):
        piece = self.numbers[at:at + POSITIONS + 1]
        return piece[:-1], piece[1:]


class Gpt(torch.nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letter = torch.nn.Embedding(letters, CHANNELS)
        self.place = torch.nn.Embedding(POSITIONS, CHANNELS)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                CHANNELS, HEADS, 4 * CHANNELS, dropout=0.0, activation="gelu",
                batch_first=True, norm_first=True) for _ in range(LAYERS))
        self.out = torch.nn.Linear(CHANNELS, letters)

    def forward(self, pieces):
        n = pieces.shape[1]
        later = torch.full((n, n), float("-inf")).triu(1)
        x = self.letter(pieces) + self.place(torch.arange(n))
        for layer in self.layers:
            x = layer(x, src_mask=later)
        return self.out(x)


def write(model, text, start, n):
    """What it thinks comes next, n times."""
    found = [text.letters.index(c) for c in start]
    with torch.no_grad():
        for _ in range(n):
            seen = torch.tensor([found[-POSITIONS:]])
            found.append(int(model(seen)[0, -1].argmax()))
    return "".join(text.letters[i] for i in found)


@regroup.run
def train(state, flags, sampler, text):
    """Called again from the top after every change, with all that State has as
    the last commit left it."""
    batch = flags.batch * POSITIONS  # of all ranks
    while sampler.epoch < flags.epochs:
        for pieces, next_ in torch.utils.data.DataLoader(
                text, batch_sampler=sampler):
            state.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(
                state.model(pieces).transpose(1, 2), next_,
                reduction="sum") / batch
            loss.backward()  # gradients are reduced as they come
            state.optimizer.step()
            mean = state.context.world.allreduce(loss.detach().view(1))
            state.loss += 0.1 * (mean.item() - state.loss)
            time.sleep(flags.step_ms / 1000)  # as if the model were larger
            state.commit()


def main():
    flags = read_flags()
    torch.manual_seed(7)
    torch.set_num_threads(1)
    text = Text(flags.text)
    model = Gpt(len(text.letters))
    with regroup.init(elastic=True) as ctx:
        optimizer = regroup.torch.DistributedOptimizer(
            torch.optim.AdamW(model.parameters(), lr=6e-3), op=regroup.SUM)
        state = regroup.torch.State(model=model, optimizer=optimizer, loss=4.0)
        sampler = regroup.torch.BatchSampler(len(text), flags.batch,
                                             state=state, seed=7)

        def report(done):  # once for each step that counts
            if ctx.rank == 0 and done % sampler.steps == 0:
                print(f"epoch {done // sampler.steps} loss {state.loss:.4f} "
                      f"(generation {ctx.generation}, {ctx.size} workers)",
                      flush=True)

        state.on_commit(report)
        train(state, flags, sampler, text)
        if ctx.rank == 0:
            bytes_ = b"".join(tensor.numpy().tobytes()
                              for tensor in model.state_dict().values())
            print(f"final loss {state.loss:.4f} "
                  f"state {hashlib.sha256(bytes_).hexdigest()[:16]}")
            print("writes:", write(model.eval(), text, "The harbour", 60)
                  .replace("\n", " "))


main()
