"""The scoring service: the skin around admission (sockets, snapshot, journal, late binding)."""
