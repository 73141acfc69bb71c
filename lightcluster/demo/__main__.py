"""``python -m lightcluster.demo``."""

import sys

from lightcluster.demo.main import main

sys.exit(main())
