"""``python -m onegraph``."""

import sys

from .cli import main

sys.exit(main())
