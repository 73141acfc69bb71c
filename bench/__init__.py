"""Measurements, side by side with a floor or a peer in one run; never asserted by a test."""
