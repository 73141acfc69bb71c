"""``python -m hpcmgr``."""

from hpcmgr.cli import run

if __name__ == "__main__":
    run()
