"""`python -m harness`: the command line."""

import sys

try:
    from harness.cli.main import main

    main()
except KeyboardInterrupt:  # while modules are imported
    sys.exit(130)
