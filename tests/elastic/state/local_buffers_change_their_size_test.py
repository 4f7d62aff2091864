"""Local buffers whose sizes change with each step: a restarted worker gets its
part, whatever size it registered; a resize for which there is no room changes
nothing; and --vault-max is compared with what workers of the host register,
counting each of them once. If a redistribute function does something wrong, it
is refused, and no rank's memory is taken for the commit. A part whose length
is damaged is a damaged commit.

Covers: local.c pieces.c vault.c"""

import os
import tempfile

from house import BUILD, Job, claim, main

SWARM = os.path.join(BUILD, "tests", "swarm")
ROOM = ["--vault-max", "820K"]  # 768 KiB at the most, and 8 of other buffers


def said(folder, mode, *flags, code=0):
    words = [SWARM, os.path.join(folder, mode), mode]
    if mode == "damage":  # the commit before is in a slot of its own then
        words.append("1")
    with Job(["-n", "2", "--max-restarts", "1", *flags], words) as job:
        job.finish(code=code)
        text = job.text()
    claim("wrong numbers" not in text, text)
    claim(code != 0 or text.count("ended with right numbers") == 2, text)
    return text


def test():
    with tempfile.TemporaryDirectory() as folder:
        text = said(folder, "apart", *ROOM)
        claim(text.count("too much: RG_ERR_MEMORY, RG_ERR_MEMORY") == 2, text)
        text = said(folder, "still", "--vault-max", "500K", code=1)
        claim("of the vault, of which" in text, text)
        text = said(folder, "both", code=1)
        claim("buffer speed can't be resized while buffer place is "
              "redistributed" in text, text)
        text = said(folder, "others", code=1)
        claim("buffer place is not redistributed on rank" in text and
              "returned RG_ERR_NOT_FOUND" in text, text)
        text = said(folder, "damage")
        claim("is damaged: shard 1" in text, text)


main(test)
