"""A program that speaks as `codex app-server` does, and misbehaves on request.

Its first argument that begins with `fault=` names the fault.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def note(method: str, **params: Any) -> None:
    send({"method": method, "params": params})


class Fake:
    def __init__(self, fault: str, folder: Path) -> None:
        self.fault = fault
        self.folder = folder
        self.threads = 0
        self.waiting: dict[int, tuple[str, str]] = {}
        self.requests = 0

    def has_fault(self, name: str) -> bool:
        """Whether to misbehave, which happens once."""
        if self.fault != name:
            return False
        mark = self.folder / f"{name}.done"
        if mark.exists():
            return False
        mark.touch()
        return True

    def wait(self) -> None:
        """Wait for the test to make the file `go`."""
        while not (self.folder / "go").exists():
            time.sleep(0.01)

    def serve(self) -> None:
        if "--version" in sys.argv:
            print("codex-cli", "0.171.0")
            return
        if self.has_fault("exit-at-start"):
            print("error: no such configuration", file=sys.stderr, flush=True)
            sys.exit(3)
        for line in sys.stdin:
            message = json.loads(line)
            with (self.folder / "received.jsonl").open("a") as file:
                file.write(line)
            if "method" in message:
                self.handle(message)
            else:
                self.take_result(message)

    def handle(self, message: dict[str, Any]) -> None:
        method, number = message["method"], message.get("id")
        params = message.get("params", {})
        if method == "initialize":
            time.sleep(0.5 if self.fault == "slow-start" else 0)
            version = "0.12.0" if self.fault == "old" else "0.171.0"
            agent = "surprise" if self.fault == "no-version" else f"nighthawk-async/{version} (x)"
            send({"id": number, "result": {"userAgent": agent}})
        elif method == "hooks/list":
            self.list_hooks(number, params)
        elif method == "thread/start":
            if self.has_fault("refused"):
                send({"id": number, "error": {"code": -32600, "message": "failed to load configuration"}})
                return
            self.threads += 1
            if self.has_fault("late-thread"):
                self.wait()
            send({"id": number, "result": {"thread": {"id": f"t{self.threads}"}, "model": "fake-1"}})
            if self.has_fault("deaf"):
                self.wait()
        elif method == "turn/start":
            self.start_turn(number, params["threadId"])
        elif method == "turn/interrupt":
            if self.fault == "hung":
                return
            if self.fault == "over":
                send({"id": number, "error": {"code": -32600, "message": "no active turn"}})
                return
            send({"id": number, "result": {}})
            note("turn/completed", threadId=params["threadId"], turn={"id": "u1", "status": "interrupted"})
        elif number is not None:
            send({"id": number, "result": {}})

    def list_hooks(self, number: Any, params: dict[str, Any]) -> None:
        command = next(part for part in sys.argv if part.startswith("hooks="))
        command = json.loads(command.split('"command" = ', 1)[1].split(', "timeout"')[0])
        trust = "trusted" if "threadId" in params and self.fault != "untrusted" else "untrusted"
        hooks = [
            {
                "key": f"{each}:0",
                "eventName": each,
                "command": command,
                "currentHash": "h",
                "trustStatus": trust,
            }
            for each in ("preToolUse", "postToolUse")
        ]
        send({"id": number, "result": {"data": [{"hooks": hooks}]}})

    def start_turn(self, number: Any, thread: str) -> None:
        send({"id": number, "result": {"turn": {"id": "u1", "status": "inProgress"}}})
        if self.fault == "hung":
            return
        if self.has_fault("crash"):
            print("thread 'main' panicked at the disco", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.has_fault("exit"):
            print("goodbye", file=sys.stderr, flush=True)
            sys.exit(0)
        if self.has_fault("garbage"):
            print("a warning nobody expected", flush=True)
        if self.has_fault("half-a-line"):
            sys.stdout.write('{"method": "turn/')
            sys.stdout.flush()
            sys.exit(1)
        if self.has_fault("too-long"):
            error = {"message": "Codex ran out of room", "codexErrorInfo": "contextWindowExceeded"}
            note("turn/completed", threadId=thread, turn={"id": "u1", "status": "failed", "error": error})
            return
        if self.has_fault("failed"):
            info = {"responseTooManyFailedAttempts": {"httpStatusCode": 503}}
            error = {"message": "exceeded retry limit", "codexErrorInfo": info}
            note("turn/completed", threadId=thread, turn={"id": "u1", "status": "failed", "error": error})
            return
        if self.has_fault("closed"):
            os.close(1)
            time.sleep(30)
        self.respond(thread)

    def respond(self, thread: str) -> None:
        note("unheard/of", threadId=thread)
        note("item/agentMessage/delta", threadId=thread, itemId="m", delta="Done\u2028soon.")
        item = {"type": "function_call", "call_id": "c1", "name": "nh_outcome", "arguments": "{}"}
        note("rawResponseItem/completed", threadId=thread, item=item)
        note("rawResponse/completed", threadId=thread, usage={"inputTokens": 3, "outputTokens": 4})
        self.requests += 1
        request = {"threadId": thread, "callId": "c1", "tool": "nh_outcome", "arguments": {"kind": "pass"}}
        send({"id": self.requests, "method": "item/tool/call", "params": request})

    def take_result(self, message: dict[str, Any]) -> None:
        pass


if __name__ == "__main__":
    given = [each.partition("=")[2] for each in sys.argv if each.startswith("fault=")]
    Fake(given[0] if given else "", Path(os.environ["FAKE_FOLDER"])).serve()
