"""A service that misbehaves: run inside the cluster, it counts and logs its connections; in mode
``listen`` it refuses every job and logs the requests.

python3 fake_service.py SOCKET MODE
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path

ANSWERS = {
    "garbage": b"\x00\xff not json\n",
    "half": b'{"v":1,"set":{"gres":"gpu:a10',
    "version": b'{"v":1,"error_code":"version"}\n',
    "outside": b'{"v":1,"trace":"t-1","set":{"gres":"gpu:a100:1","user_id":0},"message":[]}\n',
    "wrongtype": b'{"v":1,"trace":"t-1","set":{"gres":7},"message":[]}\n',
    "closed": b"",
    "listen": b'{"v":1,"trace":"t-1","error":"heard"}\n',
    "huge": b'{"v":1,"message":["' + b"x" * (70 << 10) + b'"]}\n',
}


def serve(connection: socket.socket, mode: str) -> None:
    started = time.monotonic()
    request = connection.makefile("rb").readline()
    told = {"request": json.loads(request)} if mode == "listen" else {}
    print(json.dumps({"mode": mode, "asked": len(request), **told}), flush=True)
    try:
        if mode == "hang":
            connection.recv(1)  # until the other side gives up
        elif mode == "trickle":
            while True:
                connection.sendall(b" ")
                time.sleep(0.02)
        else:
            connection.sendall(ANSWERS[mode])
    except OSError:
        pass
    connection.close()
    print(json.dumps({"closed_after": round(time.monotonic() - started, 3)}), flush=True)


def main(path: str, mode: str) -> None:
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    Path(path).chmod(0o600)
    listener.listen(64)
    print("listening", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, mode), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
