"""A stand-in for the child program `local_server.py`: its behaviour is written in the model file."""

import json
import os
import sys
import threading


def main() -> None:
    options = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
    with open(options["model"], encoding="utf-8") as file:
        behaviour = json.load(file)
    with open(options["model"] + ".starts", "a", encoding="utf-8") as starts:
        starts.write(f"{os.getpid()}\n")
    if behaviour.get("until_file") is not None:
        while not os.path.exists(behaviour["until_file"]):
            threading.Event().wait(0.01)
    sys.stderr.write(behaviour.get("stderr", ""))
    sys.stderr.flush()
    if "exit" in behaviour:
        os._exit(behaviour["exit"])
    if "line" in behaviour:
        print(behaviour["line"], flush=True)
    if "record" in behaviour:
        told = {"arguments": sys.argv, "environment": dict(os.environ), "line": sys.stdin.readline()}
        with open(behaviour["record"], "w", encoding="utf-8") as record:
            json.dump(told, record)
    if behaviour.get("deaf"):
        threading.Event().wait()
    sys.stdin.read()


main()
