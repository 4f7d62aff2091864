"""`import horovod.tensorflow.keras as hvd`, by another name."""

from ..keras import *  # noqa: F403
from ..keras import __all__  # noqa: F401
