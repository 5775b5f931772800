"""A stand-in for the package `xllamacpp`: a server that accepts connections and says nothing."""

import socket
import sys
import threading
from types import SimpleNamespace
from typing import Any


class CommonParams:
    """Takes any parameter."""

    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.cpuparams = SimpleNamespace(n_threads=0)
        self.cpuparams_batch = SimpleNamespace(n_threads=0)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Server:
    """Listens until the process ends; a connection to it ends when the process does."""

    def __init__(self, parameters: Any) -> None:
        print("chatter of the library")
        sys.stdout.flush()
        with open(parameters.model.path, encoding="utf-8") as file:
            if file.read() == "broken":
                raise RuntimeError("no magic number in the file")
        self._listener = socket.create_server((parameters.hostnames[0], parameters.port))
        self._connections: list[socket.socket] = []
        self.listening_address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            self._connections.append(self._listener.accept()[0])
