"""Traces replayed through four ways to choose the device type; `python -m bench.replay`."""
