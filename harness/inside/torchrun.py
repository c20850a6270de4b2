"""torchrun, whose exit status is the trainer's: 128 + n for signal n, and no traceback for either.

The arguments are torchrun's. With a plain torchrun every trainer that ends badly ends with 1, and
one that needs over 30 seconds to save is killed.
"""

import logging
import os
import sys

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main


def status(arguments: list[str]) -> int:
    """Run to the end; the first failed process's status, or that of the signal that came."""
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3600")
    logging.disable(logging.ERROR)  # in this process alone: what failed has said why itself
    try:
        main(arguments)
    except SignalException as error:
        return 128 + int(error.sigval)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        code = int(failure.exitcode)
        return code if code >= 0 else 128 - code
    return 0


if __name__ == "__main__":
    sys.exit(status(sys.argv[1:]))
