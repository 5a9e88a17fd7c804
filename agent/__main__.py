"""``python -m agent`` is the command ``resctrl-agent``."""

import sys

from agent.cli import main

sys.exit(main())
