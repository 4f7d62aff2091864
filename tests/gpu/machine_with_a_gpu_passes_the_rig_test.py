"""The whole rig on this machine's first GPU (ci/gpu).

Covers: reclaim.c lanes.c operations.c nccl/device.c"""

import os
import subprocess
import sys

from house import BUILD, SOURCE

sys.exit(subprocess.run(
    [os.path.join(SOURCE, "ci", "gpu")], check=False,
    env=dict(os.environ, REGROUP_BUILD=BUILD)).returncode)
